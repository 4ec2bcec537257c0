"""Gathers. Constant tables that are affine become plain loads; run-time indices never leave the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm import relax, te, tirx
from tvm.relax import op as R

from redfuser.frontend.converters.common import Attributes, Inputs, dtype_of, shape_of

#: One coordinate of a load, from the coordinates of the output.
Coordinate = Callable[[Sequence[tirx.Var]], tirx.PrimExpr]


def convert_gather(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Gather along one axis; a run-time index is counted from the end once, then clipped."""
    data, indices = inputs[0], inputs[1]
    shape = shape_of(data)
    axis = attributes.get("axis", 0) % len(shape)
    rank = len(shape_of(indices))
    affine = _affine(indices)
    if affine is None:
        return R.take(data, _wrapped(bb, indices, [shape[axis]], scalar=True), axis, mode="clip")

    def source(place: Sequence[tirx.Var]) -> list[tirx.PrimExpr]:
        return [*place[:axis], affine(place[axis : axis + rank]), *place[axis + rank :]]

    return _loads(bb, data, (*shape[:axis], *shape_of(indices), *shape[axis + 1 :]), source)


def convert_gather_elements(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """GatherElements: one index per output element along one axis."""
    data, indices = inputs[0], inputs[1]
    shape = shape_of(data)
    axis = attributes.get("axis", 0) % len(shape)
    affine = _affine(indices)
    if affine is None:
        return R.gather_elements(data, _clipped(bb, indices, [shape[axis]]), axis)

    def source(place: Sequence[tirx.Var]) -> list[tirx.PrimExpr]:
        return [*place[:axis], affine(place), *place[axis + 1 :]]

    return _loads(bb, data, shape_of(indices), source)


def convert_gather_nd(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """GatherND: index tuples in the last axis of the indices, ``batch_dims`` shared leading axes."""
    data, indices = inputs[0], inputs[1]
    shape, outer = shape_of(data), shape_of(indices)[:-1]
    width = shape_of(indices)[-1]
    batch = attributes.get("batch_dims", 0)
    tables = [_affine(indices, component) for component in range(width)]
    if any(table is None for table in tables):
        return R.gather_nd(data, _clipped(bb, indices, shape[batch : batch + width]), batch)

    def source(place: Sequence[tirx.Var]) -> list[tirx.PrimExpr]:
        inner = place[: len(outer)]
        return [*place[:batch], *(table(inner) for table in tables if table), *place[len(outer) :]]

    return _loads(bb, data, (*outer, *shape[batch + width :]), source)


def _affine(indices: relax.Expr, component: int | None = None) -> Coordinate | None:
    """A constant table as ``base + Σ step·coordinate``; None if it isn't constant or not of that form.

    Args:
        indices: the table.
        component: look at this entry of the last axis only.
    """
    if not isinstance(indices, relax.Constant):
        return None
    table = indices.data.numpy().astype(np.int64)
    if component is not None:
        table = table[..., component]
    if table.size == 0:
        return None
    base = int(table.reshape(-1)[0])
    steps = []
    for axis, extent in enumerate(table.shape):
        start = [0] * table.ndim
        start[axis] = min(1, extent - 1)
        steps.append(int(table[tuple(start)]) - base)
    grid = np.indices(table.shape, sparse=True)
    expected = sum((step * place for step, place in zip(steps, grid, strict=True)), start=np.int64(base))
    if not np.array_equal(np.broadcast_to(expected, table.shape), table):
        return None

    def coordinate(place: Sequence[tirx.Var]) -> tirx.PrimExpr:
        value = tirx.const(base, "int64")
        for step, variable in zip(steps, place, strict=True):
            value = value + step * variable if step else value
        return value

    return coordinate


def _loads(
    bb: relax.BlockBuilder,
    data: relax.Expr,
    shape: Sequence[int],
    source: Callable[[Sequence[tirx.Var]], list[tirx.PrimExpr]],
) -> relax.Expr:
    def gather(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tuple(shape), lambda *place: tensor(*source(place)), name="gather")

    return bb.emit_te(gather, data, primfunc_name_hint="gather")


def _wrapped(bb: relax.BlockBuilder, indices: relax.Expr, extents: Sequence[int], scalar: bool = False) -> relax.Expr:
    """Negative run-time indices counted from the end; constant ones are positive already."""
    if isinstance(indices, relax.Constant) or dtype_of(indices).startswith("uint"):
        return indices
    kind = dtype_of(indices)
    extent = relax.const(extents[0] if scalar else np.array(extents), kind)
    negative = bb.emit(R.less(indices, relax.const(0, kind)))
    return bb.emit(R.where(negative, bb.emit(R.add(indices, extent)), indices))


def _clipped(bb: relax.BlockBuilder, indices: relax.Expr, extents: Sequence[int]) -> relax.Expr:
    """Run-time indices brought inside the data: TVM checks none."""
    if isinstance(indices, relax.Constant):
        return indices
    kind = dtype_of(indices)
    last = relax.const(np.array(extents) - 1, kind)
    upper = bb.emit(R.minimum(_wrapped(bb, indices, extents), last))
    return bb.emit(R.maximum(upper, relax.const(0, kind)))
