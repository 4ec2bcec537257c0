"""Gathers. Constant tables that are affine become plain loads; run-time indices never leave the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.relax import op as R

from redfuser.frontend.converters.common import Attributes, Inputs, dtype_of, extents_of, rank_of, symbols_of
from redfuser.frontend.converters.positions import largest
from redfuser.frontend.sizes import as_relax, as_tensor, objects

#: An integer, or an expression over symbolic dimensions.
Extent = Any
#: One coordinate of a load, from the coordinates of the output.
Coordinate = Callable[[Sequence[tirx.Var]], tirx.PrimExpr]


def convert_gather(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Gather along one axis; a run-time index is counted from the end once, then clipped.

    Raises:
        OutOfRange: positions counted from an open dimension may leave the data.
    """
    data, indices = inputs[0], inputs[1]
    shape = extents_of(data)
    axis = attributes.get("axis", 0) % len(shape)
    rank = rank_of(indices)
    affine = _affine(indices, shape[axis])
    if affine is None:
        symbols_of(attributes).at_most(largest(bb, indices), shape[axis])
        return R.take(data, _wrapped(bb, indices, [shape[axis]], scalar=True), axis, mode="clip")

    def source(place: Sequence[tirx.Var]) -> list[tirx.PrimExpr]:
        return [*place[:axis], affine(place[axis : axis + rank]), *place[axis + rank :]]

    return _loads(bb, data, (*shape[:axis], *extents_of(indices), *shape[axis + 1 :]), source)


def convert_gather_elements(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """GatherElements: one index per output element along one axis."""
    data, indices = inputs[0], inputs[1]
    shape = extents_of(data)
    axis = attributes.get("axis", 0) % len(shape)
    affine = _affine(indices, shape[axis])
    if affine is None:
        return R.gather_elements(data, clipped(bb, indices, [shape[axis]]), axis)

    def source(place: Sequence[tirx.Var]) -> list[tirx.PrimExpr]:
        return [*place[:axis], affine(place), *place[axis + 1 :]]

    return _loads(bb, data, extents_of(indices), source)


def convert_gather_nd(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """GatherND: index tuples in the last axis of the indices, ``batch_dims`` shared leading axes."""
    data, indices = inputs[0], inputs[1]
    shape, (*outer, width) = extents_of(data), extents_of(indices)
    batch = attributes.get("batch_dims", 0)
    tables = [_affine(indices, shape[batch + component], component) for component in range(width)]
    if any(table is None for table in tables):
        return R.gather_nd(data, clipped(bb, indices, shape[batch : batch + width]), batch)

    def source(place: Sequence[tirx.Var]) -> list[tirx.PrimExpr]:
        inner = place[: len(outer)]
        return [*place[:batch], *(table(inner) for table in tables if table), *place[len(outer) :]]

    return _loads(bb, data, (*outer, *shape[batch + width :]), source)


def _affine(indices: relax.Expr, extent: Extent, component: int | None = None) -> Coordinate | None:
    """A constant table as ``base + Σ step·coordinate``; None if it isn't constant or not of that form.

    Args:
        indices: the table; negative only where it counts from the end of a symbolic dimension.
        extent: of the dimension it points into.
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

    negative = bool((table < 0).any())
    if negative and not (table < 0).all():
        return None

    def coordinate(place: Sequence[tirx.Var]) -> tirx.PrimExpr:
        value = tirx.const(base, "int64") + (extent if negative else 0)
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
        # Here symbolic dimensions have variables of their own.
        pairs = zip(extents_of(data), tensor.shape, strict=True)
        own = {outer: inner for outer, inner in pairs if isinstance(outer, tirx.Var)}

        def element(*place: tirx.Var) -> tirx.PrimExpr:
            return tensor(*(tirx.stmt_functor.substitute(where, own) for where in source(place)))

        return te.compute(tuple(shape), element, name="gather")

    return bb.emit_te(gather, data, primfunc_name_hint="gather")


def _wrapped(
    bb: relax.BlockBuilder, indices: relax.Expr, extents: Sequence[Extent], scalar: bool = False
) -> relax.Expr:
    """Negative indices counted from the end; constant ones are positive already where the dimensions are static."""
    constant = isinstance(indices, relax.Constant) and not (indices.data.numpy() < 0).any()
    if constant or dtype_of(indices).startswith("uint"):
        return indices
    kind = dtype_of(indices)
    negative = bb.emit(R.less(indices, relax.const(0, kind)))
    return bb.emit(R.where(negative, bb.emit(R.add(indices, _table(bb, extents, kind, scalar))), indices))


def clipped(bb: relax.BlockBuilder, indices: relax.Expr, extents: Sequence[Extent]) -> relax.Expr:
    """Run-time indices brought inside the data: TVM checks none."""
    if isinstance(indices, relax.Constant) and not (indices.data.numpy() < 0).any():
        return indices
    kind = dtype_of(indices)
    last = _table(bb, [extent - 1 for extent in extents], kind, False)
    upper = bb.emit(R.minimum(_wrapped(bb, indices, extents), last))
    return bb.emit(R.maximum(upper, relax.const(0, kind)))


def _table(bb: relax.BlockBuilder, values: Sequence[Extent], dtype: str, scalar: bool) -> relax.Expr:
    """Extents as a tensor of one dimension, or a single one as a scalar."""
    sizes = objects(values, () if scalar else (len(values),))
    return bb.emit(R.astype(as_tensor(bb, as_relax(sizes, "int64")), dtype))
