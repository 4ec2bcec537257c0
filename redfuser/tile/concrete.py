"""Tile programs at given sizes: what the verifier and the interpreter, which want numbers, work on."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from redfuser.expr import Axis, Expr, Load, Tensor, transform
from redfuser.expr.binding import at_sizes, dims_in
from redfuser.expr.evaluate import evaluate
from redfuser.extents import Dim
from redfuser.tile.ir import Buffer, Derived, Stream, Tile, TileProgram

#: Sizes that are tried in turn: they leave something over from every tile.
UNEVEN = (7, 5, 3)
#: And one that is longer than the usual tiles.
LONG = 67


def program_at(program: TileProgram, sizes: Mapping[str, int]) -> TileProgram:
    """A program where symbolic dimensions have these sizes; tiles are no larger than their axes then.

    Args:
        sizes: of every dimension that occurs and isn't derived, by its name.
    """
    if not dims_in(program):
        return program
    bound = at_sizes(program, with_derived(sizes, program.derived))
    buffers = [buffer for phase in bound.phases for buffer in phase.buffers]
    smaller = {buffer.tensor: _clamped(buffer).tensor for buffer in buffers}
    clamped: TileProgram = _rewritten(bound, smaller)
    return clamped


def with_derived(sizes: Mapping[str, int], derived: Sequence[Derived]) -> dict[str, int]:
    """Sizes, with those of dimensions that follow from them; one that is given stays."""
    values = {item.dim.name: item.value for item in derived if item.dim.name not in sizes}
    return {**sizes, **{name: int(evaluate(at_sizes(value, sizes), {}, {})) for name, value in values.items()}}


def trial_sizes(program: TileProgram) -> list[dict[str, int]]:
    """Sizes to try a program at: all the smallest, all uneven, each dimension in turn longer than a tile."""
    dims = dims_in(program)
    least = {dim.name: dim.low for dim in dims}
    uneven = {dim.name: _within(dim, UNEVEN[place % len(UNEVEN)]) for place, dim in enumerate(dims)}
    trials = [least, uneven, *({**least, dim.name: _within(dim, LONG)} for dim in dims)]
    return [dict(items) for items in dict.fromkeys(tuple(trial.items()) for trial in trials)]


def _within(dim: Dim, size: int) -> int:
    return min(max(size, dim.low), dim.high)


def _clamped(buffer: Buffer) -> Buffer:
    shape = tuple(min(n, max(a.extent, 1)) for n, a in zip(buffer.tensor.shape, buffer.axes, strict=True))
    return Buffer(Tensor(buffer.tensor.name, shape, buffer.tensor.dtype), buffer.axes)


def _rewritten(value: Any, tensors: Mapping[Tensor, Tensor]) -> Any:
    if isinstance(value, Tensor):
        return tensors.get(value, value)
    if isinstance(value, Expr):
        return value if isinstance(value, Axis) else transform(value, lambda node: _node(node, tensors))
    if isinstance(value, tuple):
        return tuple(_rewritten(item, tensors) for item in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    changes = {field.name: _rewritten(getattr(value, field.name), tensors) for field in dataclasses.fields(value)}
    if isinstance(value, Tile):
        changes["size"] = min(value.size, max(value.axis.extent, 1))
    elif isinstance(value, Stream):
        changes["tile"] = min(value.tile, max(value.axis.extent, 1))
    return dataclasses.replace(value, **changes)


def _node(node: Expr, tensors: Mapping[Tensor, Tensor]) -> Expr:
    if isinstance(node, Load) and node.tensor in tensors:
        return Load(node.dtype, tensors[node.tensor], node.indices)
    return node
