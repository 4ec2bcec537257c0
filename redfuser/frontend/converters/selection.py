"""Selections and CumSum as calls of our PrimFuncs: TVM has no lowering of TopK and CumSum, and another order of NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tvm import relax, tirx
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    Attributes,
    Converter,
    Inputs,
    constant,
    dtype_of,
    extents_of,
    rank_of,
    symbols_of,
)
from redfuser.frontend.kernels import cumulative_sum, top_k
from redfuser.frontend.symbols import Symbols


def convert_top_k(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
    """TopK: int64 indices, ties to the lowest index, NaN above every number. ``sorted=0`` is sorted too."""
    k = int(constant(inputs[1], "k").reshape(-1)[0])
    axis, largest = attributes.get("axis", -1), bool(attributes.get("largest", 1))
    return _select(bb, symbols_of(attributes), inputs[0], axis, k, largest)


def _arg_extremum(largest: bool) -> Converter:
    """ArgMax or ArgMin: the index that TopK gives for one element."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
        data = inputs[0]
        axis, last = attributes.get("axis", 0) % rank_of(data), bool(attributes.get("select_last_index", 0))
        _, winner = _select(bb, symbols_of(attributes), data, axis, 1, largest, last)
        return winner if attributes.get("keepdims", 1) else R.squeeze(bb.emit(winner), [axis])

    return convert


CONVERT_ARG_MAX = _arg_extremum(largest=True)
CONVERT_ARG_MIN = _arg_extremum(largest=False)


def convert_hardmax(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Hardmax: 1 where ArgMax is, which of a row of −∞ is its first element. Any dimension may be symbolic."""
    data = inputs[0]
    shape, dtype = extents_of(data), dtype_of(data)
    axis = attributes.get("axis", -1) % len(shape)
    extents = [shape[axis] if place == axis else 1 for place in range(len(shape))]
    start, step = (relax.PrimValue(tirx.const(value, "int64")) for value in (0, 1))
    positions = bb.emit(R.reshape(bb.emit(R.arange(start, relax.PrimValue(shape[axis]), step, "int64")), extents))

    def largest(values: relax.Expr) -> relax.Expr:
        return bb.emit(R.max(bb.emit(values), axis, keepdims=True))

    best = bb.emit(R.equal(data, bb.emit(R.max(data, axis, keepdims=True))))
    if "float" in dtype:
        unknown = bb.emit(R.isnan(data))
        some = bb.emit(R.greater(largest(R.astype(unknown, "int32")), relax.const(0, "int32")))
        best = bb.emit(R.where(some, unknown, best))
    # The first of the best is the one farthest from the end.
    first = largest(R.where(best, bb.emit(R.negative(positions)), relax.const(-(2**62), "int64")))
    return R.astype(bb.emit(R.equal(bb.emit(R.negative(positions)), first)), dtype)


def _select(
    bb: relax.BlockBuilder, symbols: Symbols, data: relax.Expr, axis: int, k: int, largest: bool, last: bool = False
) -> list[relax.Expr]:
    """Values and indices of the ``k`` best along an axis."""
    shape, dtype = extents_of(data), dtype_of(data)
    axis %= len(shape)
    if k < 0 or not symbols.at_least(shape[axis], k):
        raise ValueError(f"k = {k} of an axis with {shape[axis]} elements")
    order = [place for place in range(len(shape)) if place != axis] + [axis]
    back = [order.index(place) for place in range(len(shape))]
    is_last = axis == len(shape) - 1
    outer = [shape[place] for place in order[:-1]]
    rows = math.prod(outer)
    ordered = data if is_last else bb.emit(R.permute_dims(data, order))
    flat = bb.emit(R.reshape(ordered, (rows, shape[axis])))
    kernel = bb.add_func(top_k(rows, shape[axis], k, dtype, largest, last), "top_k")
    kinds = [relax.TensorStructInfo((rows, k), kind) for kind in (dtype, "int64")]
    both = bb.emit(relax.call_tir(kernel, [flat], out_sinfo=kinds))
    results = [bb.emit(R.reshape(bb.emit(relax.TupleGetItem(both, place)), [*outer, k])) for place in range(2)]
    return results if is_last else [R.permute_dims(result, back) for result in results]


def convert_cum_sum(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """CumSum along a constant axis, ``exclusive`` and ``reverse`` included."""
    data = inputs[0]
    shape = extents_of(data)
    axis = int(constant(inputs[1], "axis").reshape(-1)[0]) % len(shape)
    folded = (math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    flat = bb.emit(R.reshape(data, folded))
    sums = cumulative_sum(folded, dtype_of(data), bool(attributes.get("exclusive", 0)), bool(attributes.get("reverse")))
    kernel = bb.add_func(sums, "cumulative_sum")
    total = bb.emit(relax.call_tir(kernel, [flat], out_sinfo=relax.TensorStructInfo(folded, dtype_of(data))))
    return R.reshape(total, shape)
