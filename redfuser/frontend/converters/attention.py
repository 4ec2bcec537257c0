"""ai.onnx Attention (operator sets 23 and later), spelled out in Relax operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import arith, relax, te, tirx
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    HALF,
    Attributes,
    Inputs,
    cast,
    dtype_of,
    extents_of,
    matmul,
    optional,
    rank_of,
    static_extents,
)


def convert_attention(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
    """``softmax(softcap(Q·Kᵀ·scale) + bias)·V``; rows whose bias is -inf throughout give zeros.

    The outputs are Y, present key, present value, and Q·Kᵀ at the stage that ``qk_matmul_output_mode``
    names. Scores are float32 at least.
    """
    query, key, value, mask, past_key, past_value, valid = (optional(inputs, place) for place in range(7))
    is_flat = rank_of(query) == 3
    if is_flat:
        query = _split_heads(bb, query, attributes["q_num_heads"])
        key, value = (_split_heads(bb, tensor, attributes["kv_num_heads"]) for tensor in (key, value))
    past = 0 if past_key is None else extents_of(past_key)[2]
    if past_key is not None:
        key, value = bb.emit(R.concat([past_key, key], 2)), bb.emit(R.concat([past_value, value], 2))
    present = [key, value]
    heads, kv_heads = static_extents([extents_of(query)[1], extents_of(key)[1]])
    if heads != kv_heads:
        key, value = (bb.emit(R.repeat(tensor, heads // kv_heads, 1)) for tensor in present)
    stages, hidden = _probabilities(bb, query, key, mask, valid, past, attributes)
    dtype = dtype_of(query)
    output = matmul(bb, cast(bb, stages[-1], dtype), value)
    if hidden is not None:
        output = bb.emit(R.where(hidden, relax.const(0, dtype), output))
        stages[-1] = bb.emit(R.where(hidden, relax.const(0, dtype_of(stages[-1])), stages[-1]))
    if is_flat:
        batch, _, length, width = extents_of(output)
        output = R.reshape(bb.emit(R.permute_dims(output, [0, 2, 1, 3])), (batch, length, heads * width))
    return [output, *present, cast(bb, stages[attributes.get("qk_matmul_output_mode", 0)], dtype)]


def _split_heads(bb: relax.BlockBuilder, tensor: relax.Expr, heads: int) -> relax.Expr:
    batch, length, width = extents_of(tensor)
    return bb.emit(R.permute_dims(bb.emit(R.reshape(tensor, (batch, length, heads, width // heads))), [0, 2, 1, 3]))


def _probabilities(
    bb: relax.BlockBuilder,
    query: relax.Expr,
    key: relax.Expr,
    mask: relax.Expr | None,
    valid: relax.Expr | None,
    past: Any,
    attributes: Attributes,
) -> tuple[list[relax.Expr], relax.Expr | None]:
    """Scores, capped scores, masked scores and softmax; and which rows see no key (None: every row sees one)."""
    dtype = dtype_of(query)
    wide = "float32" if dtype in HALF else dtype
    scale = attributes.get("scale", 1 / math.sqrt(*static_extents(extents_of(query)[3:])))
    raw = bb.emit(R.matmul(query, bb.emit(R.permute_dims(key, [0, 1, 3, 2])), out_dtype=wide))
    scores = bb.emit(R.multiply(raw, relax.const(scale, wide)))
    capped, cap = scores, attributes.get("softcap", 0.0)
    if cap > 0:
        inner = bb.emit(R.tanh(bb.emit(R.divide(scores, relax.const(cap, wide)))))
        capped = bb.emit(R.multiply(inner, relax.const(cap, wide)))
    bias, hides_rows = _bias(bb, capped, mask, valid, past, attributes)
    masked = capped if bias is None else bb.emit(R.add(capped, bias))
    stages = [scores, capped, masked, bb.emit(R.nn.softmax(masked, -1))]
    if not hides_rows:
        return stages, None
    # Counted, not compared with the row's maximum: TVM's max of a row of -inf is the least finite number.
    sees = bb.emit(R.astype(bb.emit(R.not_equal(bias, relax.const(-math.inf, wide))), "int32"))
    return stages, bb.emit(R.equal(bb.emit(R.sum(sees, -1, True)), relax.const(0, "int32")))


def _bias(
    bb: relax.BlockBuilder,
    scores: relax.Expr,
    mask: relax.Expr | None,
    valid: relax.Expr | None,
    past: Any,
    attributes: Attributes,
) -> tuple[relax.Expr | None, bool]:
    """What is added to the scores (None for nothing), and whether it may hide every key of a row."""
    dtype = dtype_of(scores)
    queries, keys = extents_of(scores)[2:]
    left, right = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    if attributes.get("is_causal", 0):
        right = 0
    known = all(isinstance(n, int) for n in (queries, keys, past))
    hides_rows = valid is not None or (left >= 0 and (not known or queries + past > keys))
    terms = []
    if isinstance(mask, relax.Constant):
        table = _additive_table(mask.data.numpy(), keys, dtype)
        hides_rows |= bool(np.isneginf(table).all(axis=-1).any()) or (right >= 0 and bool(np.isneginf(table).any()))
        mask = relax.const(table, dtype) if table.any() else None
    elif mask is not None:
        hides_rows = True
        mask = _additive_mask(bb, mask, keys, dtype)
    if mask is not None:
        terms.append(mask)
    if (left, right) != (-1, -1) or valid is not None:
        terms.append(_position_bias(bb, scores, valid, past, left, right))
    if not terms:
        return None, False
    return (terms[0] if len(terms) == 1 else bb.emit(R.add(*terms))), hides_rows


def _additive_table(mask: np.ndarray, keys: Any, dtype: str) -> np.ndarray:
    """:func:`_additive_mask` of a constant."""
    table = np.where(mask, 0, -math.inf) if mask.dtype == np.bool_ else mask
    missing = keys - table.shape[-1]
    padded = np.pad(table, [(0, 0)] * (table.ndim - 1) + [(0, max(missing, 0))], constant_values=-math.inf)
    return padded.astype(dtype)


def _additive_mask(bb: relax.BlockBuilder, mask: relax.Expr, keys: Any, dtype: str) -> relax.Expr:
    """The mask as numbers: a boolean one as 0 and -inf; padded with -inf to the number of keys."""
    if dtype_of(mask) == "bool":
        mask = bb.emit(R.where(mask, relax.const(0, dtype), relax.const(-math.inf, dtype)))
    mask = cast(bb, mask, dtype)
    missing = _difference(keys, extents_of(mask)[-1])
    if missing > 0:
        filler = bb.emit(R.full((*extents_of(mask)[:-1], missing), relax.const(-math.inf, dtype), dtype))
        mask = bb.emit(R.concat([mask, filler], -1))
    return mask


def _position_bias(
    bb: relax.BlockBuilder, scores: relax.Expr, valid: relax.Expr | None, past: Any, left: int, right: int
) -> relax.Expr:
    """0 where query i may see key j, else -inf: ``i+offset-left <= j <= i+offset+right`` and ``j < valid``.

    Computed from positions rather than read from a table, so that a kernel can skip what it hides.
    """
    batch, _, queries, keys = extents_of(scores)
    dtype = dtype_of(scores)

    def bias(before: Any, length: Any, *counts: te.Tensor) -> te.Tensor:
        def element(b: tirx.Var, _: tirx.Var, i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
            count = counts[0][b].astype("int64") if counts else None
            offset = before if count is None or has_past else count - length
            conditions = [] if count is None else [j < count]
            if left >= 0:
                conditions.append(j >= i + offset - left)
            if right >= 0:
                conditions.append(j <= i + offset + right)
            return tirx.Select(tirx.all(*conditions), tirx.const(0, dtype), tirx.const(-math.inf, dtype))

        return te.compute((batch if counts else 1, 1, queries, keys), element, name="position_bias")

    has_past = not isinstance(past, int) or past > 0
    return bb.emit_te(bias, past, queries, *([] if valid is None else [valid]), primfunc_name_hint="position_bias")


def _difference(a: Any, b: Any) -> int:
    """``a - b`` of extents.

    Raises:
        ValueError: it depends on symbolic dimensions.
    """
    difference = arith.Analyzer().simplify(tirx.IntImm("int64", 0) + a - b)
    if not isinstance(difference, tirx.IntImm):
        raise ValueError(f"a mask of {b} keys for {a} of them: the symbolic dimensions must be fixed")
    return int(difference)
