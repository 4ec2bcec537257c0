"""Which axis a phase lays along vector lanes, where the schedule leaves it open."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from redfuser.codegen.cpu.lowering.nests import BlockProduct, Product, Transpose, make_nest, merge_products, operands_of
from redfuser.codegen.cpu.lowering.prefetch import Prefetch
from redfuser.codegen.cpu.lowering.staging import Staging, axes_of_phase
from redfuser.codegen.cpu.lowering.strides import Strides, value_loads
from redfuser.codegen.cpu.machine import Machine
from redfuser.expr import Axis
from redfuser.extents import most
from redfuser.tile.ir import Phase, Statement, Store, Stream


def choose_lanes(phase: Phase, wanted: str, machine: Machine) -> Axis | None:
    """The wanted axis if its tile has more than one point; else the one that takes the fewest instructions.

    Columns of a product of bytes lie along lanes whatever is wanted.
    """
    columns = [s.column for s in phase.body if isinstance(s, BlockProduct)]
    if columns:
        return columns[0]
    tiles = _tiles(phase)
    wide = [a for a in axes_of_phase(phase) if tiles.get(a, a.extent) > 1]
    named = [a for a in wide if a.name == wanted]
    if named or not wide:
        return named[0] if named else None
    return min(wide, key=lambda a: _cost(phase, a, machine))


def _tiles(phase: Phase) -> dict[Axis, int]:
    tiles = {tile.axis: tile.size for tile in phase.grid}
    pending: list[Statement] = list(phase.body)
    while pending:
        statement = pending.pop()
        if isinstance(statement, Stream):
            tiles[statement.axis] = max(tiles.get(statement.axis, 0), statement.tile)
            pending += statement.body
    return tiles


def _cost(phase: Phase, lanes: Axis, machine: Machine) -> float:
    """Roughly the vector instructions of one block."""
    tiles = {tile.axis: tile.size for tile in phase.grid}
    staging = Staging(phase, machine, lanes, tiles)
    return _body(staging.run().body, staging, lanes, tiles)


def _body(body: Sequence[Statement], staging: Staging, lanes: Axis, tiles: dict[Axis, int]) -> float:
    total = 0.0
    for leaf in merge_products(body):
        if isinstance(leaf, Stream):
            steps = -(-most(leaf.axis.extent) // leaf.tile)
            total += steps * _body(leaf.body, staging, lanes, {**tiles, leaf.axis: leaf.tile})
            continue
        axes = leaf.axes if isinstance(leaf, Store | Prefetch) else leaf.target.axes
        over = getattr(leaf, "over", None)
        space = dict.fromkeys((*axes, over) if over is not None else axes)
        sizes = {a: tiles.get(a, a.extent) for a in space}
        strides = Strides(staging.layouts, sizes)
        nest = make_nest(leaf, strides, lanes)
        points = prod(sizes.values())
        width = min(sizes[nest.vector], staging.machine.lanes) if nest.vector is not None else 1
        loads = [node for part in operands_of(nest.leaf) for node in value_loads(part)]
        gathers = 0
        if nest.vector is not None and not isinstance(nest.leaf, Transpose | Product):
            gathers = sum(strides.of_load(node, nest.vector) not in (0, 1) for node in loads)
        total += points * (1 / width + gathers)
    return total
