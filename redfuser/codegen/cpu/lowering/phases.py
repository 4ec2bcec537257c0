"""One phase of a tile program as TIR.

Every phase is one parallel loop over its grid. Points that no tile divides are handled by further copies
of the body, specialised to what is left over, so that no vector is masked: along a grid axis the last
block moves back to end with the axis (and stores only what no other block does). What is left of a symbolic axis is
known on the call only: it is gone through in narrower and narrower tiles, down to single points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.bytes.panels import COLUMNS
from redfuser.codegen.cpu.bytes.products import ByteProducts
from redfuser.codegen.cpu.lowering.below import never_positive
from redfuser.codegen.cpu.lowering.bodies import Bodies
from redfuser.codegen.cpu.lowering.centres import split_centres
from redfuser.codegen.cpu.lowering.factors import move_factors
from redfuser.codegen.cpu.lowering.lanes import choose_lanes
from redfuser.codegen.cpu.lowering.leaves import Leaves
from redfuser.codegen.cpu.lowering.lengths import narrower
from redfuser.codegen.cpu.lowering.loops import Loops
from redfuser.codegen.cpu.lowering.nests import BlockProduct
from redfuser.codegen.cpu.lowering.normal import never_subnormal
from redfuser.codegen.cpu.lowering.operands import plan_operands
from redfuser.codegen.cpu.lowering.prefetch import plan_matrices, plan_prefetches
from redfuser.codegen.cpu.lowering.region import Region, Span, whole
from redfuser.codegen.cpu.lowering.staging import Staging, axes_of_phase
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.access import Access
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.codegen.cpu.values.expressions import Translator
from redfuser.codegen.cpu.values.nontemporal import fenced
from redfuser.expr import Axis, Const, Expr, Tensor, index, op
from redfuser.extents import is_symbolic, least, most
from redfuser.indexing import linear
from redfuser.tile.ir import Phase, Tile
from redfuser.tile.witnesses import witnessed

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array


@dataclass
class PhaseWriter:
    """Writes one phase.

    Args:
        phase: as the tile program has it.
        wanted: name of the axis to lay along lanes; empty leaves the choice to us.
        builder: where statements go.
        machine: what the target can do.
        arrays: tensors in memory.
        bytes_: writes products of bytes, if there are any.
        uncached: tensors in memory that are written past the caches.
        normal: tensors in memory that hold no subnormal number.
    """

    phase: Phase
    wanted: str
    builder: Builder
    machine: Machine
    arrays: Mapping[Tensor, Array]
    bytes_: ByteProducts | None = None
    uncached: frozenset[Tensor] = frozenset()
    normal: frozenset[Tensor] = frozenset()

    def write(self) -> None:
        """The parallel loop over the grid, with a copy of the body for every kind of tile."""
        grid = self.phase.grid
        tiles = {tile.axis: tile.size for tile in grid}
        self.lanes = choose_lanes(self.phase, self.wanted, self.machine)
        staging = Staging(split_centres(self.phase, self.lanes), self.machine, self.lanes, tiles)
        self.staged, self.layouts = move_factors(staging.run()), staging.layouts
        self.everywhere = {a: whole(a) for a in axes_of_phase(self.staged)}
        if any(tile.axis.extent == 0 for tile in grid):
            return
        counts = {tile: self._count(tile) for tile in grid}
        with self.builder.block() as statements:
            self._blocks(counts)
        for statement in [fenced(self.builder.sequence(statements))] if self.uncached else statements:
            self.builder.emit(statement)

    def _blocks(self, counts: Mapping[Tile, Expr]) -> None:
        """The loop over all blocks."""
        grid = self.phase.grid
        count = prod(tile.count for tile in grid)
        total = _product(counts.values())
        known = None if isinstance(total, Const) else self.builder.index(total)
        with self.builder.loop("block", count, "parallel" if count > 1 else "serial", known) as block:
            arrays = {**self.arrays, **self._allocate()}
            access = Access(self.builder, self.layouts, arrays, self.uncached)
            below, normal = never_positive(self.staged), self.normal | never_subnormal(self.staged)
            translator = Translator(self.builder, self.machine, access, below, normal)
            leaves = Leaves(self.builder, translator, self.machine.lanes, witnessed([self.staged]))
            operands = plan_operands(self.staged, self.layouts)
            self.body = self._body(Loops(leaves, self.layouts, self.machine, self.bytes_, operands), translator)
            numbers: dict[Tile, Expr] = {}
            for place, tile in enumerate(grid):
                inside = _product(counts[inner] for inner in grid[place + 1 :])
                number = op("floormod", op("floordiv", block, inside), counts[tile])
                numbers[tile] = self.builder.coordinate(f"{tile.axis.name}_block", number, tile.count)
            self._variants(list(grid), numbers, Region(self.everywhere), {})

    def _body(self, loops: Loops, translator: Translator) -> Bodies:
        prefetches = plan_prefetches(self.staged, self.layouts, self.lanes, self.machine, self.uncached)
        matrices = plan_matrices(self.staged, self.layouts, self.machine)
        return Bodies(loops, translator, self.layouts, self.lanes, prefetches, matrices)

    def _count(self, tile: Tile) -> Expr:
        """Number of blocks along a grid axis."""
        if not is_symbolic(tile.axis.extent):
            return index(tile.count)
        rounded_up = op("floordiv", index(tile.axis.extent + tile.size - 1), index(tile.size))
        return self.builder.coordinate(f"{tile.axis.name}_blocks", rounded_up, tile.count + 1)

    def _allocate(self) -> dict[Tensor, Array]:
        return {t: self.builder.allocate(t.name, layout.size, t.dtype) for t, layout in self.layouts.items()}

    def _variants(
        self, grid: Sequence[Tile], numbers: Mapping[Tile, Expr], region: Region, done: Mapping[Axis, int]
    ) -> None:
        """The body for full tiles and, under a condition, for the last ones.

        Args:
            done: how many points at the beginning of a tile other blocks store already.
        """
        if not grid:
            self.body.write(self.staged.body, region, done)
            return
        tile, *rest = grid
        number = numbers[tile]
        if is_symbolic(tile.axis.extent):
            self._symbolic_tile(tile, rest, numbers, region, done)
            return
        full, left = divmod(tile.axis.extent, tile.size)
        origin = op("mul", number, index(tile.size))
        complete = replace(region, spans={**region.spans, tile.axis: Span(origin, index(0), tile.size)})
        if not left:
            self._variants(rest, numbers, complete, done)
            return
        width = -(-left // self._unit()) * self._unit() if tile.axis == self.lanes else left
        width = min(width, tile.size)
        last = Span(index(tile.axis.extent - width), index(0), width)
        position = self.builder.index(number)
        with self.builder.when(position < self.builder.number(full)):
            self._variants(rest, numbers, complete, done)
        with self.builder.when(position >= self.builder.number(full)):
            shifted = replace(region, spans={**region.spans, tile.axis: last})
            self._variants(rest, numbers, shifted, {**done, tile.axis: width - left})

    def _unit(self) -> int:
        """Points along lanes that are computed together: a vector, or a panel of a product of bytes."""
        return COLUMNS if any(isinstance(s, BlockProduct) for s in self.phase.body) else self.machine.lanes

    def _symbolic_tile(
        self,
        tile: Tile,
        rest: Sequence[Tile],
        numbers: Mapping[Tile, Expr],
        region: Region,
        done: Mapping[Axis, int],
    ) -> None:
        """The body for full tiles, the last of which ends with the axis, and for axes that are shorter than a tile.

        The last two blocks store some elements both: the same numbers.
        """
        extent, most_points = index(tile.axis.extent), most(tile.axis.extent)
        points, wider = self.builder.index(extent), 0
        for width in narrower(tile.size, self.machine.lanes):
            fits = points >= self.builder.number(width)
            condition = fits & (points < self.builder.number(wider)) if wider else fits
            with self.builder.when(condition):
                count = op("floordiv", index(tile.axis.extent + width - 1), index(width)) if wider else None
                inside = -(-min(wider, most_points) // width) if wider else 1
                known = self.builder.index(count) if count is not None else None
                with self.builder.loop(tile.axis.name, inside, "serial", known) as inner:
                    first = op("mul", inner if wider else numbers[tile], index(width))
                    last = op("sub", extent, index(width))
                    origin = first if width == 1 else op("min", first, last)
                    start = self.builder.coordinate(f"{tile.axis.name}_first", origin, most_points)
                    spans = {**region.spans, tile.axis: Span(start, index(0), width)}
                    self._variants(rest, numbers, replace(region, spans=spans), done)
            if least(tile.axis.extent) >= width:
                return
            wider = width


def _product(counts: Iterable[Expr]) -> Expr:
    total: Expr = index(1)
    for count in counts:
        total = op("mul", total, count)
    return linear(total).expr()
