"""Reductions: of integers, extrema without the stock chain that looks for NaN, and log-sum-exp of infinities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    Attributes,
    Converter,
    Inputs,
    constant,
    dtype_of,
    extents_of,
    optional,
    rank_of,
)


def _axes(inputs: Inputs, attributes: Attributes) -> list[int] | None:
    """The axes a node reduces, none of them included; None for all."""
    given = optional(inputs, 1)
    axes = list(attributes.get("axes", ())) if given is None else constant(given, "axes").tolist()
    return [int(axis) for axis in axes] or ([] if attributes.get("noop_with_empty_axes", 0) else None)


def keep_map(operation: Callable[[relax.Expr], relax.Expr]) -> Callable[[Converter], Converter]:
    """For a reduction that maps each element first: what it does over no axes, where the stock one hands on its input.

    Args:
        operation: of one element; the rest of the reduction included.
    """

    def adapt(stock: Converter) -> Converter:
        def convert(
            bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes
        ) -> relax.Expr | Sequence[relax.Expr]:
            if attributes.get("noop_with_empty_axes", 0) and _axes(inputs, attributes) == []:
                return operation(inputs[0])
            return stock(bb, inputs, attributes)

        return convert

    return adapt


def of_integers(convert: Converter) -> Converter:
    """For a reduction with a root or a logarithm: integers in float64, the result rounded towards zero.

    ONNX leaves the precision open; its reference implementation and ONNX Runtime do the same.
    """

    def whole(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr | Sequence[relax.Expr]:
        data, *axes = inputs
        kind = dtype_of(data)
        if "int" not in kind:
            return convert(bb, inputs, attributes)
        real = convert(bb, [bb.emit(R.astype(data, "float64")), *axes], attributes)
        return R.astype(bb.normalize(real), kind)

    return whole


def _reduction(reduce: Callable[..., relax.Expr]) -> Converter:
    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
        data, axes = inputs[0], _axes(inputs, attributes)
        if axes == []:
            return data
        which, keep = axes, bool(attributes.get("keepdims", 1))
        if dtype_of(data) == "bool":
            return R.astype(bb.emit(reduce(bb.emit(R.astype(data, "int8")), which, keep)), "bool")
        return reduce(data, which, keep)

    return convert


def convert_reduce_log_sum_exp(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """``log Σ exp(x − max) + max``; an infinite maximum is the result, where the formula gives NaN."""
    data, axes = inputs[0], _axes(inputs, attributes)
    if axes == []:
        return data
    which = axes or list(range(rank_of(data)))
    top = bb.emit(R.max(data, which, True))
    total = bb.emit(R.sum(bb.emit(R.exp(bb.emit(R.subtract(data, top)))), which, True))
    finite = bb.emit(R.add(bb.emit(R.log(total)), top))
    result = bb.emit(R.where(bb.emit(R.isinf(top)), top, finite))
    return result if attributes.get("keepdims", 1) else R.squeeze(result, which)


def _mean(data: relax.Expr, axes: list[int] | None, keep: bool) -> relax.Expr:
    """TVM's mean, but of integers: those stay integers, rounded towards zero.

    Of no elements it is NaN, as that of ONNX's reference implementation and of NumPy is, or 0 of integers: ONNX leaves
    it open.
    """
    shape, floats = extents_of(data), "float" in dtype_of(data)
    reduced = [shape[axis] for axis in (range(len(shape)) if axes is None else axes)]
    if any(isinstance(extent, int) and extent == 0 for extent in reduced):
        nothing = R.sum(data, axes, keep)
        return R.multiply(nothing, relax.const(math.nan, dtype_of(data))) if floats else nothing
    if floats:
        return R.mean(data, axes, keep)
    if all(isinstance(extent, int) for extent in reduced):
        return R.divide(R.sum(data, axes, keep), relax.const(math.prod(reduced), dtype_of(data)))
    return R.divide(R.sum(data, axes, keep), R.sum(R.ones_like(data), axes, keep))


CONVERT_REDUCE_MEAN = _reduction(_mean)
CONVERT_REDUCE_MAX = _reduction(R.max)
CONVERT_REDUCE_MIN = _reduction(R.min)
