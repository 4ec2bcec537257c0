"""ONNX operators that TVM's stock converters get wrong or lack, as Relax expressions.

A converter takes ``(bb, inputs, attributes)`` and returns one expression, or a tuple of them for an
operator with several outputs. Missing optional inputs are None. Imports TVM: import it lazily.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.relax import op as R

from redfuser.frontend.kernels import cumulative_sum, top_k

Inputs = Sequence[relax.Expr | None]
Attributes = Mapping[str, Any]
Converter = Callable[[relax.BlockBuilder, Inputs, Attributes], relax.Expr | Sequence[relax.Expr]]


def shape_of(value: relax.Expr) -> tuple[int, ...]:
    """Static extents of an expression."""
    return tuple(int(extent) for extent in value.struct_info.shape)


def dtype_of(value: relax.Expr) -> str:
    """Element type of an expression."""
    return str(value.struct_info.dtype)


def constant(value: relax.Expr | None, what: str) -> np.ndarray:
    """The value of a constant input.

    Raises:
        ValueError: it is only known at run time.
    """
    if not isinstance(value, relax.Constant):
        raise ValueError(f"{what} must be a constant")
    return value.data.numpy()


def optional(inputs: Inputs, place: int) -> relax.Expr | None:
    """An input that may be missing."""
    return inputs[place] if place < len(inputs) else None


def reduce_extreme(reduce: Callable[..., relax.Expr]) -> Converter:
    """ReduceMax and ReduceMin as the bare reduction, without the stock isnan chain."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
        data = inputs[0]
        given = optional(inputs, 1)
        axes = list(attributes.get("axes", ())) if given is None else constant(given, "axes").tolist()
        if not axes and attributes.get("noop_with_empty_axes", 0):
            return data
        return reduce(data, [int(axis) for axis in axes] or None, bool(attributes.get("keepdims", 1)))

    return convert


def convert_top_k(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
    """TopK: int64 indices, ties to the lowest index, NaN above every number. ``sorted=0`` is sorted too."""
    data = inputs[0]
    k = int(constant(inputs[1], "k").reshape(-1)[0])
    shape, dtype = shape_of(data), dtype_of(data)
    axis = attributes.get("axis", -1) % len(shape)
    order = [place for place in range(len(shape)) if place != axis] + [axis]
    back = [order.index(place) for place in range(len(shape))]
    rows, width = math.prod(shape) // max(shape[axis], 1), shape[axis]
    if not 0 <= k <= width:
        raise ValueError(f"k = {k} of an axis with {width} elements")
    last = data if axis == len(shape) - 1 else bb.emit(R.permute_dims(data, order))
    flat = bb.emit(R.reshape(last, (rows, width)))
    kernel = bb.add_func(top_k(rows, width, k, dtype, bool(attributes.get("largest", 1))), "top_k")
    kinds = [relax.TensorStructInfo((rows, k), kind) for kind in (dtype, "int64")]
    both = bb.emit(relax.call_tir(kernel, [flat], out_sinfo=kinds))
    results = []
    for place in range(2):
        one = bb.emit(R.reshape(bb.emit(relax.TupleGetItem(both, place)), [*(shape[p] for p in order[:-1]), k]))
        results.append(one if axis == len(shape) - 1 else R.permute_dims(one, back))
    return results


def convert_cum_sum(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """CumSum along a constant axis, ``exclusive`` and ``reverse`` included."""
    data = inputs[0]
    shape = shape_of(data)
    axis = int(constant(inputs[1], "axis").reshape(-1)[0]) % len(shape)
    flags = bool(attributes.get("exclusive", 0)), bool(attributes.get("reverse", 0))
    folded = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    flat = bb.emit(R.reshape(data, folded))
    kernel = bb.add_func(cumulative_sum(folded, dtype_of(data), *flags), "cumulative_sum")
    total = bb.emit(relax.call_tir(kernel, [flat], out_sinfo=relax.TensorStructInfo(folded, dtype_of(data))))
    return R.reshape(total, shape)


def convert_gather(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Gather; run-time indices are wrapped once and clipped, so that none reads outside the data."""
    data, indices = inputs[0], inputs[1]
    axis = attributes.get("axis", 0) % len(shape_of(data))
    if isinstance(indices, relax.Constant):
        return R.take(data, indices, axis, mode="fast")
    return R.take(data, _wrapped(bb, indices, shape_of(data)[axis]), axis, mode="clip")


def _wrapped(bb: relax.BlockBuilder, indices: relax.Expr, extent: int) -> relax.Expr:
    """Negative run-time indices counted from the end."""
    kind = dtype_of(indices)
    negative = bb.emit(R.less(indices, relax.const(0, kind)))
    shifted = bb.emit(R.add(indices, relax.const(extent, kind)))
    return bb.emit(R.where(negative, shifted, indices))


def convert_attention(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
    """ai.onnx Attention (23 and later), spelled out.

    ``softmax(softcap(Q·Kᵀ · scale) + bias) · V``; rows whose bias is -inf throughout give zeros. The
    outputs are Y, present key, present value, and Q·Kᵀ at the stage the attribute names.
    """
    query, key, value, mask, past_key, past_value, valid = (optional(inputs, place) for place in range(7))
    is_flat = len(shape_of(query)) == 3
    if is_flat:
        query = _split_heads(bb, query, attributes["q_num_heads"])
        key, value = (_split_heads(bb, tensor, attributes["kv_num_heads"]) for tensor in (key, value))
    past = 0 if past_key is None else shape_of(past_key)[2]
    if past_key is not None:
        key, value = bb.emit(R.concat([past_key, key], 2)), bb.emit(R.concat([past_value, value], 2))
    present = key, value
    dtype = dtype_of(query)
    heads, kv_heads = shape_of(query)[1], shape_of(key)[1]
    if heads != kv_heads:
        key, value = (bb.emit(R.repeat(tensor, heads // kv_heads, 1)) for tensor in present)
    scale = attributes.get("scale", 1 / math.sqrt(shape_of(query)[3]))
    scores = bb.emit(R.matmul(query, bb.emit(R.permute_dims(key, [0, 1, 3, 2]))))
    stages = [bb.emit(R.multiply(scores, relax.const(scale, dtype)))]
    cap = attributes.get("softcap", 0.0)
    if cap > 0:
        inner = bb.emit(R.tanh(bb.emit(R.divide(stages[-1], relax.const(cap, dtype)))))
        stages.append(bb.emit(R.multiply(inner, relax.const(cap, dtype))))
    else:
        stages.append(stages[-1])
    bias = _attention_bias(bb, stages[-1], mask, valid, past, attributes)
    stages.append(stages[-1] if bias is None else bb.emit(R.add(stages[-1], bias)))
    stages.append(bb.emit(R.nn.softmax(stages[-1], -1)))
    output = bb.emit(R.matmul(stages[-1], value))
    if bias is not None:
        masked = bb.emit(R.equal(bb.emit(R.max(bias, -1, True)), relax.const(-math.inf, dtype)))
        output = bb.emit(R.where(masked, relax.const(0, dtype), output))
    if is_flat:
        batch, _, length, width = shape_of(output)
        output = R.reshape(bb.emit(R.permute_dims(output, [0, 2, 1, 3])), (batch, length, heads * width))
    return [output, *present, stages[attributes.get("qk_matmul_output_mode", 0)]]


def _split_heads(bb: relax.BlockBuilder, tensor: relax.Expr, heads: int) -> relax.Expr:
    batch, length, width = shape_of(tensor)
    return bb.emit(R.permute_dims(bb.emit(R.reshape(tensor, (batch, length, heads, width // heads))), [0, 2, 1, 3]))


def _attention_bias(
    bb: relax.BlockBuilder,
    scores: relax.Expr,
    mask: relax.Expr | None,
    valid: relax.Expr | None,
    past: int,
    attributes: Attributes,
) -> relax.Expr | None:
    """What is added to the scores: the mask, the causal and sliding windows, the padding. None for nothing."""
    dtype = dtype_of(scores)
    terms = []
    if mask is not None:
        terms.append(_additive_mask(bb, mask, shape_of(scores)[3], dtype))
    window = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    if attributes.get("is_causal", 0):
        window = window[0], 0
    if window != (-1, -1) or valid is not None:
        terms.append(_position_bias(bb, scores, valid, past, window))
    if not terms:
        return None
    return terms[0] if len(terms) == 1 else bb.emit(R.add(*terms))


def _additive_mask(bb: relax.BlockBuilder, mask: relax.Expr, keys: int, dtype: str) -> relax.Expr:
    """A boolean mask as 0 and -inf; padded with -inf to the number of keys."""
    if dtype_of(mask) == "bool":
        zero, lowest = relax.const(0, dtype), relax.const(-math.inf, dtype)
        mask = bb.emit(R.where(mask, zero, lowest))
    missing = keys - shape_of(mask)[-1]
    if missing > 0:
        filler = bb.emit(R.full((*shape_of(mask)[:-1], missing), relax.const(-math.inf, dtype), dtype))
        mask = bb.emit(R.concat([mask, filler], -1))
    return mask


def _position_bias(
    bb: relax.BlockBuilder, scores: relax.Expr, valid: relax.Expr | None, past: int, window: tuple[int, int]
) -> relax.Expr:
    """0 where query i may see key j, else -inf: ``i+offset-left <= j <= i+offset+right`` and ``j < valid``."""
    batch, _, queries, keys = shape_of(scores)
    dtype = dtype_of(scores)
    left, right = window

    def bias(*counts: te.Tensor) -> te.Tensor:
        def element(b: tirx.Var, h: tirx.Var, i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
            count = counts[0][b].astype("int64") if counts else None
            offset = past if count is None or past else count - queries
            allowed = tirx.const(True, "bool")
            if left >= 0:
                allowed = tirx.all(allowed, j >= i + offset - left)
            if right >= 0:
                allowed = tirx.all(allowed, j <= i + offset + right)
            if count is not None:
                allowed = tirx.all(allowed, j < count)
            return tirx.Select(allowed, tirx.const(0, dtype), tirx.const(-math.inf, dtype))

        return te.compute((batch if counts else 1, 1, queries, keys), element, name="position_bias")

    return bb.emit_te(bias, *([] if valid is None else [valid]), primfunc_name_hint="position_bias")


def widened(convert: Converter) -> Converter:
    """Compute a half-precision operator in float32 and round its results once.

    TVM accumulates in the type of the operands; every runtime we are compared with accumulates wide.
    """

    def wide(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr | Sequence[relax.Expr]:
        narrow = next((d for d in map(_dtype_or_none, inputs) if d in ("float16", "bfloat16")), None)
        if narrow is None:
            return convert(bb, inputs, attributes)
        cast = [bb.emit(R.astype(value, "float32")) if _dtype_or_none(value) == narrow else value for value in inputs]
        result = convert(bb, cast, attributes)
        if isinstance(result, relax.Tuple):
            result = list(result)
        if isinstance(result, Sequence):
            return [_narrowed(bb, value, narrow) for value in result]
        return _narrowed(bb, result, narrow)

    return wide


def _dtype_or_none(value: relax.Expr | None) -> str | None:
    info = getattr(value, "struct_info", None)
    return str(info.dtype) if isinstance(info, relax.TensorStructInfo) else None


def _narrowed(bb: relax.BlockBuilder, value: relax.Expr, dtype: str) -> relax.Expr:
    value = bb.normalize(value)
    return R.astype(value, dtype) if dtype_of(value) == "float32" else value


#: Operator of the default domain -> our converter.
CONVERTERS: dict[str, Converter] = {
    "Attention": convert_attention,
    "CumSum": convert_cum_sum,
    "Gather": convert_gather,
    "ReduceMax": reduce_extreme(R.max),
    "ReduceMin": reduce_extreme(R.min),
    "TopK": convert_top_k,
}

#: Operators that accumulate: computed in float32 on half-precision inputs.
ACCUMULATING = frozenset(
    [
        "Attention",
        "AveragePool",
        "BatchNormalization",
        "Conv",
        "ConvTranspose",
        "CumSum",
        "Einsum",
        "Gemm",
        "GlobalAveragePool",
        "InstanceNormalization",
        "LayerNormalization",
        "LogSoftmax",
        "MatMul",
        "MeanVarianceNormalization",
        "RMSNormalization",
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMean",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "Softmax",
    ]
)
