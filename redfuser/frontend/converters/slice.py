"""Slice, of static and of symbolic dimensions."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    Attributes,
    Converter,
    Inputs,
    constant,
    extents_of,
    optional,
    symbols_of,
)


def convert_slice(stock: Converter) -> Converter:
    """TVM's converter where all is static; ours where a bound or a dimension is symbolic."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Any:
        data, bounds, steps = inputs[0], inputs[1:3], optional(inputs, 4)
        shape = extents_of(data)
        axes = _axes(optional(inputs, 3), bounds[0], len(shape))
        symbolic = any(isinstance(bound, relax.ShapeExpr) for bound in bounds)
        if not symbolic and all(isinstance(extent, int) for extent in shape):
            return stock(bb, inputs, attributes)
        strides = [1] * len(axes) if steps is None else [int(step) for step in constant(steps, "steps")]
        if not symbolic and all(isinstance(shape[axis], int) for axis in axes):
            return _cut(bb, data, axes, _values(bounds[0]), _values(bounds[1]), strides)
        if any(stride <= 0 for stride in strides):
            raise ValueError("steps backwards along a symbolic dimension are not supported")
        symbols = symbols_of(attributes)
        starts, ends = (
            [symbols.within(value, shape[axis]) for value, axis in zip(_values(bound), axes, strict=True)]
            for bound in bounds
        )
        ends = [symbols.later(start, end) for start, end in zip(starts, ends, strict=True)]
        bounds = [[relax.PrimValue(_index(value)) for value in values] for values in (starts, ends, strides)]
        return R.strided_slice(data, axes, *bounds, assume_inbound=True)

    return convert


def _cut(
    bb: relax.BlockBuilder, data: relax.Expr, axes: list[int], starts: list[int], ends: list[int], strides: list[int]
) -> relax.Expr:
    """A slice of static dimensions of a tensor that has others too: there TVM takes bounds as they stand.

    What goes backwards is cut forwards, and turned round.
    """
    shape = extents_of(data)
    cuts = [slice(*cut).indices(shape[axis]) for axis, *cut in zip(axes, starts, ends, strides, strict=True)]
    kept = [range(*cut)[:: 1 if cut[-1] > 0 else -1] for cut in cuts]
    bounds = [[places.start, places.stop, places.step] for places in kept]
    primes = [[relax.PrimValue(_index(value)) for value in values] for values in zip(*bounds, strict=True)]
    result = R.strided_slice(data, axes, *primes, assume_inbound=True)
    for axis, stride in zip(axes, strides, strict=True):
        result = result if stride > 0 else R.flip(bb.emit(result), axis)
    return result


def _axes(given: relax.Expr | None, starts: relax.Expr | None, rank: int) -> list[int]:
    if given is None:
        return list(range(len(_values(starts))))
    return [int(axis) % rank for axis in constant(given, "axes")]


def _values(bound: relax.Expr | None) -> list[Any]:
    if isinstance(bound, relax.ShapeExpr):
        return list(bound.values)
    return [int(value) for value in constant(bound, "bounds")]


def _index(value: Any) -> tirx.PrimExpr:
    return tirx.IntImm("int64", value) if isinstance(value, int) else value
