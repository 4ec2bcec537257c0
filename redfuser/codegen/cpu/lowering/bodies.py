"""The statements of a block one after another: runs of loop nests, and streams with what is left at their ends.

Along a stream the last tile is smaller, by a copy of its statements that is specialised to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from redfuser.codegen.cpu.lowering.lengths import narrower, stream_lengths
from redfuser.codegen.cpu.lowering.loops import Loops
from redfuser.codegen.cpu.lowering.nests import Nest, make_nest, merge_products
from redfuser.codegen.cpu.lowering.prefetch import Prefetch
from redfuser.codegen.cpu.lowering.region import Region, Span
from redfuser.codegen.cpu.lowering.storage import Layout
from redfuser.codegen.cpu.lowering.strides import Strides
from redfuser.codegen.cpu.values.expressions import Translator
from redfuser.expr import Axis, Expr, Tensor, index, loads, op, substitute
from redfuser.expr.binding import dims_in
from redfuser.extents import most
from redfuser.tile.ir import Reduce, Statement, Store, Stream

#: With more remainders than this, a stream goes through them point by point instead.
MOST_REMAINDERS = 3


@dataclass(frozen=True)
class Bodies:
    """Writes the statements of a block, once for every kind of tile.

    Args:
        loops: the writer of loop nests.
        translator: gives the bounds of streams.
        layouts: on-chip buffers.
        lanes: the axis that lies along vectors.
        prefetches: what each stream brings closer for later ones.
        matrices: what each reduction brings closer for another.
    """

    loops: Loops
    translator: Translator
    layouts: Mapping[Tensor, Layout]
    lanes: Axis | None
    prefetches: Mapping[Stream, tuple[Prefetch, ...]]
    matrices: Mapping[Reduce, Prefetch]

    def write(
        self,
        body: Sequence[Statement],
        region: Region,
        done: Mapping[Axis, int],
        prefetches: Sequence[Prefetch] = (),
    ) -> None:
        """Write some statements.

        Args:
            body: of the phase, or of a stream in it.
            region: the points they are for.
            done: how many points at the beginning of a tile other blocks store already.
            prefetches: to write beside them.
        """
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
        builder = self.loops.builder
        start, stop = (self._bound(bound, stream.axis, region) for bound in (stream.start, stream.stop))
        if dims_in((stream.start, stream.stop)):
            self._symbolic_stream(stream, start, stop, region, done)
            return
        lengths = stream_lengths(stream)
        length = op("sub", stop, start)
        counts = {n // stream.tile for n in lengths}
        rests = sorted({n % stream.tile for n in lengths} - {0})
        tiles = builder.index(op("floordiv", length, index(stream.tile))) if len(counts) > 1 else None
        with builder.loop(stream.axis.name, max(counts), "serial", tiles) as number:
            first = op("add", start, op("mul", number, index(stream.tile)))
            self._iteration(stream, first, stream.tile, region, done)
        if not rests:
            return
        left = op("floormod", length, index(stream.tile))
        first = op("sub", stop, left)
        if len(rests) > MOST_REMAINDERS:
            with builder.loop(stream.axis.name, stream.tile, "serial", builder.index(left)) as number:
                self._iteration(stream, op("add", first, number), 1, region, done)
            return
        for rest in rests:
            here = op("sub", stop, index(rest))
            if {n % stream.tile for n in lengths} == {rest}:
                self._iteration(stream, here, rest, region, done)
                continue
            with builder.when(builder.index(left).equal(builder.number(rest))):
                self._iteration(stream, here, rest, region, done)

    def _symbolic_stream(
        self, stream: Stream, start: Expr, stop: Expr, region: Region, done: Mapping[Axis, int]
    ) -> None:
        """Tiles as long as they fit, then narrower ones."""
        builder, room = self.loops.builder, most(stream.axis.extent)
        name = stream.axis.name
        for width in narrower(stream.tile, self.loops.machine.lanes):
            count = op("floordiv", op("max", op("sub", stop, start), index(0)), index(width))
            whole_tiles = builder.coordinate(f"{name}_tiles", count, room // width + 1)
            with builder.loop(name, max(room // width, 1), "serial", builder.index(whole_tiles)) as number:
                first = op("add", start, op("mul", number, index(width)))
                self._iteration(stream, first, width, region, done)
            if width > 1:
                after = op("add", start, op("mul", whole_tiles, index(width)))
                start = builder.coordinate(f"{name}_rest", after, most(stream.axis.extent) + 1)
            room = min(room, width - 1)

    def _bound(self, bound: Expr, along: Axis, region: Region) -> Expr:
        """A bound at a block; one that depends on what is in memory gets a name."""
        if not loads(bound):
            return substitute(bound, region.points())
        value = self.translator.value(bound, region).astype(self.loops.builder.dtype)
        return self.loops.builder.named(f"{along.name}_bound", value, along.extent + 1)

    def _iteration(self, stream: Stream, first: Expr, width: int, region: Region, done: Mapping[Axis, int]) -> None:
        if width:
            spans = {**region.spans, stream.axis: Span(first, index(0), width)}
            inner = replace(region, spans=spans)
            self.write(stream.body, inner, done, self.prefetches.get(stream, ()))


def _beside(ahead: Sequence[Nest], nests: Sequence[Nest]) -> list[Nest]:
    """Prefetches just behind the last nest that runs over the same axis, whose loop they then share."""
    place = max((n for n, nest in enumerate(nests, 1) if ahead and nest.loops == ahead[0].loops), default=len(nests))
    return [*nests[:place], *ahead, *nests[place:]]
