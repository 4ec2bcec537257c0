"""One phase of a tile program as TIR.

Every phase is one parallel loop over its grid. Points that no tile divides are handled by further copies
of the body, specialised to what is left over, so that no vector is masked: along a grid axis the last
block moves back to end with the axis (and stores only what no other block does), along a stream the last
tile is smaller. What is left of a symbolic axis is known on the call only: it is gone through in narrower and
narrower tiles, down to single points.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from redfuser.binding import dims_in
from redfuser.codegen.cpu.bytes.panels import COLUMNS
from redfuser.codegen.cpu.bytes.products import ByteProducts
from redfuser.codegen.cpu.lowering.below import never_positive
from redfuser.codegen.cpu.lowering.centres import split_centres
from redfuser.codegen.cpu.lowering.lanes import choose_lanes
from redfuser.codegen.cpu.lowering.leaves import Leaves
from redfuser.codegen.cpu.lowering.lengths import narrower, stream_lengths
from redfuser.codegen.cpu.lowering.loops import Loops
from redfuser.codegen.cpu.lowering.nests import BlockProduct, Nest, make_nest, merge_products
from redfuser.codegen.cpu.lowering.normal import never_subnormal
from redfuser.codegen.cpu.lowering.prefetch import Prefetch, plan_matrices, plan_prefetches
from redfuser.codegen.cpu.lowering.region import Region, Span, whole
from redfuser.codegen.cpu.lowering.staging import Staging, axes_of_phase
from redfuser.codegen.cpu.lowering.strides import Strides
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.access import Access
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.codegen.cpu.values.expressions import Translator
from redfuser.codegen.cpu.values.nontemporal import fenced
from redfuser.expr import Axis, Const, Expr, Tensor, index, loads, op, substitute
from redfuser.extents import is_symbolic, least, most
from redfuser.indexing import linear
from redfuser.tile.ir import Phase, Reduce, Statement, Store, Stream, Tile

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array

#: With more remainders than this, a stream goes through them point by point instead.
MOST_REMAINDERS = 3


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
    """

    phase: Phase
    wanted: str
    builder: Builder
    machine: Machine
    arrays: Mapping[Tensor, Array]
    bytes_: ByteProducts | None = None
    uncached: frozenset[Tensor] = frozenset()

    def write(self) -> None:
        """The parallel loop over the grid, with a copy of the body for every kind of tile."""
        grid = self.phase.grid
        tiles = {tile.axis: tile.size for tile in grid}
        self.lanes = choose_lanes(self.phase, self.wanted, self.machine)
        staging = Staging(split_centres(self.phase, self.lanes), self.machine, self.lanes, tiles)
        self.staged, self.layouts = staging.run(), staging.layouts
        self.prefetches = plan_prefetches(self.staged, self.layouts, self.lanes, self.machine, self.uncached)
        self.matrices = plan_matrices(self.staged, self.layouts, self.machine)
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
        known = None if isinstance(total, Const) else self._scalar(total)
        with self.builder.loop("block", count, "parallel" if count > 1 else "serial", known) as block:
            arrays = {**self.arrays, **self._allocate()}
            access = Access(self.builder, self.layouts, arrays, self.uncached)
            below, normal = never_positive(self.staged), never_subnormal(self.staged)
            translator = Translator(self.builder, self.machine, access, below, normal)
            self.translator = translator
            leaves = Leaves(self.builder, translator, self.machine.lanes)
            self.loops = Loops(leaves, self.layouts, self.machine, self.bytes_)
            numbers: dict[Tile, Expr] = {}
            for place, tile in enumerate(grid):
                inside = _product(counts[inner] for inner in grid[place + 1 :])
                number = op("floormod", op("floordiv", block, inside), counts[tile])
                numbers[tile] = self.builder.coordinate(f"{tile.axis.name}_block", number, tile.count)
            self._variants(list(grid), numbers, Region(self.everywhere), {})

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
            self._body(self.staged.body, region, done)
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
        points, wider = self._scalar(extent), 0
        for width in narrower(tile.size, self.machine.lanes):
            fits = points >= self.builder.number(width)
            condition = fits & (points < self.builder.number(wider)) if wider else fits
            with self.builder.when(condition):
                count = op("floordiv", index(tile.axis.extent + width - 1), index(width)) if wider else None
                inside = -(-min(wider, most_points) // width) if wider else 1
                known = self._scalar(count) if count is not None else None
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

    def _body(
        self,
        body: Sequence[Statement],
        region: Region,
        done: Mapping[Axis, int],
        prefetches: Sequence[Prefetch] = (),
    ) -> None:
        sizes = {a: span.width for a, span in region.spans.items()}
        strides = Strides(self.layouts, sizes)
        pending: list[Nest] = []
        for leaf in merge_products(body):
            if isinstance(leaf, Stream):
                self.loops.write(pending, region)
                pending = []
                self._stream(leaf, region, done)
            elif isinstance(leaf, Store) and any(done.get(a) for a in leaf.axes):
                self.loops.write(pending, region)
                pending = []
                part = region
                for coordinate in leaf.axes:
                    first = done.get(coordinate, 0)
                    part = part.narrow(coordinate, index(first), region.width(coordinate) - first)
                left = {a: span.width for a, span in part.spans.items()}
                self.loops.write([make_nest(leaf, Strides(self.layouts, left), self.lanes)], part)
            else:
                pending.append(make_nest(leaf, strides, self.lanes))
                if isinstance(leaf, Reduce) and leaf in self.matrices:
                    pending.append(replace(pending[-1], leaf=self.matrices[leaf]))
        ahead = [make_nest(prefetch, strides, self.lanes) for prefetch in prefetches]
        self.loops.write(_beside(ahead, pending), region)

    def _stream(self, stream: Stream, region: Region, done: Mapping[Axis, int]) -> None:
        """Whole tiles in a loop, then what is left: one copy of the body for every remainder that occurs."""
        start, stop = (self._bound(bound, stream.axis, region) for bound in (stream.start, stream.stop))
        if dims_in((stream.start, stream.stop)):
            self._symbolic_stream(stream, start, stop, region, done)
            return
        lengths = stream_lengths(stream)
        length = op("sub", stop, start)
        counts = {n // stream.tile for n in lengths}
        rests = sorted({n % stream.tile for n in lengths} - {0})
        tiles = self._scalar(op("floordiv", length, index(stream.tile))) if len(counts) > 1 else None
        with self.builder.loop(stream.axis.name, max(counts), "serial", tiles) as number:
            first = op("add", start, op("mul", number, index(stream.tile)))
            self._iteration(stream, first, stream.tile, region, done)
        if not rests:
            return
        left = op("floormod", length, index(stream.tile))
        first = op("sub", stop, left)
        if len(rests) > MOST_REMAINDERS:
            with self.builder.loop(stream.axis.name, stream.tile, "serial", self._scalar(left)) as number:
                self._iteration(stream, op("add", first, number), 1, region, done)
            return
        for rest in rests:
            here = op("sub", stop, index(rest))
            if {n % stream.tile for n in lengths} == {rest}:
                self._iteration(stream, here, rest, region, done)
                continue
            with self.builder.when(self._scalar(left).equal(self.builder.number(rest))):
                self._iteration(stream, here, rest, region, done)

    def _symbolic_stream(
        self, stream: Stream, start: Expr, stop: Expr, region: Region, done: Mapping[Axis, int]
    ) -> None:
        """Tiles as long as they fit, then narrower ones."""
        room = most(stream.axis.extent)
        name = stream.axis.name
        for width in narrower(stream.tile, self.machine.lanes):
            count = op("floordiv", op("max", op("sub", stop, start), index(0)), index(width))
            whole_tiles = self.builder.coordinate(f"{name}_tiles", count, room // width + 1)
            with self.builder.loop(name, max(room // width, 1), "serial", self._scalar(whole_tiles)) as number:
                first = op("add", start, op("mul", number, index(width)))
                self._iteration(stream, first, width, region, done)
            if width > 1:
                after = op("add", start, op("mul", whole_tiles, index(width)))
                start = self.builder.coordinate(f"{name}_rest", after, most(stream.axis.extent) + 1)
            room = min(room, width - 1)

    def _bound(self, bound: Expr, along: Axis, region: Region) -> Expr:
        """A bound at a block; one that depends on what is in memory gets a name."""
        if not loads(bound):
            return substitute(bound, region.points())
        value = self.translator.value(bound, region).astype(self.builder.dtype)
        return self.builder.named(f"{along.name}_bound", value, along.extent + 1)

    def _iteration(self, stream: Stream, first: Expr, width: int, region: Region, done: Mapping[Axis, int]) -> None:
        if width:
            spans = {**region.spans, stream.axis: Span(first, index(0), width)}
            inner = replace(region, spans=spans)
            self._body(stream.body, inner, done, self.prefetches.get(stream, ()))

    def _scalar(self, value: Expr) -> Any:
        return self.builder.index(value)


def _beside(ahead: Sequence[Nest], nests: Sequence[Nest]) -> list[Nest]:
    """Prefetches just behind the last nest that runs over the same axis, whose loop they then share."""
    place = max((n for n, nest in enumerate(nests, 1) if ahead and nest.loops == ahead[0].loops), default=len(nests))
    return [*nests[:place], *ahead, *nests[place:]]


def _product(counts: Iterable[Expr]) -> Expr:
    total: Expr = index(1)
    for count in counts:
        total = op("mul", total, count)
    return linear(total).expr()
