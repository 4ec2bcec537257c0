"""Untuned schedules for GPUs, best first: the first whose machine code fits the target is taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu.emission.geometry import power_of_two
from redfuser.codegen.gpu.emission.products import BY_COLUMNS
from redfuser.codegen.gpu.merge_schedule import ELEMENTS, merge_options, value_axes
from redfuser.codegen.gpu.open_schedule import sizes_to_suit, suited
from redfuser.codegen.gpu.product_schedule import product_schedules, product_shape
from redfuser.expr import Axis
from redfuser.expr.binding import at_sizes
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.strategies.common import streams
from redfuser.tile.strategies.skipping.hidden import find_hidden
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN
from redfuser.tile.untuned.shapes import contiguous_axis, has_products, stationary_row

#: Elements of a row tile that a block may hold for each of its threads.
MOST_ELEMENTS = 32
#: Tile of the streamed axis for vectors, and the shortest segment worth a block of its own.
VECTOR_TILE, SHORTEST_SEGMENT = 64, 256
#: What a block reads at a time of a segment that it writes again, at least.
SHORTEST_PIECE = 1024
#: Threads of a warp, and elements that a thread loads at once.
WARP, VECTOR = 32, 4
#: Candidates that one block merges, from the lists of all segments.
MOST_CANDIDATES = 2048
#: Row and stream tiles, threads and pipeline stages of matrix products, the fastest first.
HOPPER = ((128, 128, 256, 2), (128, 64, 256, 2), (64, 128, 128, 2), (64, 64, 128, 2), (64, 64, 128, 1))
AMPERE = ((64, 64, 128, 2), (64, 64, 128, 1), (64, 32, 128, 2), (64, 32, 128, 1), (32, 32, 64, 1), (16, 32, 32, 1))
#: The same where results are so wide that warps must share out columns.
HOPPER_WIDE = ((64, 64, 256, 2), (64, 64, 256, 1), (32, 32, 128, 1), (16, 16, 64, 1))
AMPERE_WIDE = ((32, 32, 128, 1), (16, 32, 128, 1), (16, 16, 64, 1))
WIDE = 256
#: Keys and rows that make skipping what a mask hides worth a kernel that looks first, and what that takes at a time.
LONG, MANY, LOOK = 512, 64, 64
#: Columns of a block in a product without scores.
VALUE_TILE = 128


def candidates(cascade: Cascade, derivation: Derivation, target: GpuTarget) -> tuple[Schedule, ...]:
    """Schedules to try in turn, chosen from shapes and the target alone.

    Args:
        cascade: verified.
        derivation: its verdict; without an incremental form only ``resident`` is listed.
        target: the GPU.
    """
    sizes = sizes_to_suit(cascade)
    if sizes:
        found = candidates(at_sizes(cascade, sizes), at_sizes(derivation, sizes), target)
        return tuple(dict.fromkeys(suited(found, cascade, derivation, target)))
    incremental = streams(cascade, derivation)
    shape = product_shape(cascade)
    if shape is not None:
        return product_schedules(shape, incremental, target)
    rows = stationary_row(cascade) if has_products(cascade) else None
    if rows is not None:
        return tuple(dict.fromkeys(_Products(cascade, derivation, incremental, target, rows).schedules()))
    return tuple(dict.fromkeys(_Rows(cascade, incremental, target).schedules()))


def _segments(cascade: Cascade, incremental: bool, blocks: int, target: GpuTarget) -> int:
    """How many segments give every multiprocessor a block; 1 where that isn't possible or needed."""
    if not incremental or blocks >= target.multiprocessors:
        return 1
    longest = power_of_two(max((r.rank.extent for r in cascade.reductions if r.rank is not None), default=1))
    most = min(cascade.axis.extent // SHORTEST_SEGMENT, MOST_CANDIDATES // longest)
    return _even(max(min(2 * target.multiprocessors // max(blocks, 1), most), 1), cascade.axis.extent)


def _runs_along(cascade: Cascade) -> bool:
    """Whether an output has the shared axis."""
    return any(cascade.axis in output.axes for output in cascade.outputs)


def _even(segments: int, extent: int) -> int:
    """Somewhat fewer segments, if they have equal lengths then: what guards ragged ones takes registers."""
    return next((n for n in range(segments, segments // 2, -1) if extent % n == 0), segments)


@dataclass(frozen=True)
class _Products:
    """Attention and other cascades with matrix products; ``rows`` share what the stream brings in."""

    cascade: Cascade
    derivation: Derivation
    incremental: bool
    target: GpuTarget
    rows: Axis

    def schedules(self) -> Iterator[Schedule]:
        """Wide tiles first; narrower ones take fewer registers and less shared memory. Those that skip come before."""
        if self._skips():
            yield from self._shapes(((SKIP_HIDDEN, LOOK),))
        yield from self._shapes(())

    def _shapes(self, more: tuple[tuple[str, int], ...]) -> Iterator[Schedule]:
        wide = bool(self.cascade.producers) and max((a.extent for a in value_axes(self.cascade)), default=1) > WIDE
        shapes = (HOPPER_WIDE if wide else HOPPER) if self.target.has("wgmma") else AMPERE_WIDE if wide else AMPERE
        for rows, stream, threads, stages in shapes:
            if not self._needless(rows):
                tiles = min(rows, self.rows.extent), min(stream, self.cascade.axis.extent)
                columns = ((BY_COLUMNS, 1),) if wide else ()
                # TileLang pipelines copies by cp.async further only in loops of a known length.
                depth = min(stages, 1) if more and not self.target.has("tma") else stages
                options = (("threads", threads), ("stages", depth), *columns, *more)
                yield self._schedule(*tiles, options)
        if wide and self.incremental:
            yield self._in_shares(shapes[-1], more)

    def _skips(self) -> bool:
        """Whether a mask hides something, and looking where is less work than what it saves."""
        if not self.incremental or self.cascade.axis.extent < LONG or self.rows.extent < MANY:
            return False
        return bool(find_hidden(self.cascade, self.derivation))

    def _value_tiles(self) -> list[tuple[str, int]]:
        """Blocks share out the columns of a plain product; where scores are computed first, that would repeat them."""
        return [] if self.cascade.producers else [(axis.name, VALUE_TILE) for axis in self._free_values()]

    def _free_values(self) -> list[Axis]:
        """Axes of long results that blocks may share out: everything stored has them."""
        outputs = self.cascade.outputs
        return [a for a in value_axes(self.cascade) if all(a in o.axes for o in outputs) and a.extent > VALUE_TILE]

    def _in_shares(self, shape: tuple[int, int, int, int], more: tuple[tuple[str, int], ...]) -> Schedule:
        """The smallest tiles, and blocks that share out the columns: each computes all scores of its rows again."""
        rows, stream, threads, stages = shape
        tiles = ((self.rows.name, min(rows, self.rows.extent)), (self.cascade.axis.name, stream))
        columns = tuple((axis.name, VALUE_TILE) for axis in self._free_values())
        options = (("threads", threads), ("stages", stages), (BY_COLUMNS, 1), *more)
        return Schedule("single-segment", (*tiles, *columns), 1, "", options)

    def _needless(self, rows: int) -> bool:
        """Whether a narrower tile holds all rows."""
        return rows > 64 and self.rows.extent <= rows // 2

    def _schedule(self, rows: int, stream: int, options: tuple[tuple[str, int], ...]) -> Schedule:
        others = prod(axis.extent for axis in self.cascade.rows if axis != self.rows)
        blocks = others * -(-self.rows.extent // rows)
        # Products along the shared axis would be computed twice.
        cut = self.incremental and not _runs_along(self.cascade)
        segments = _segments(self.cascade, cut, blocks, self.target)
        strategy = "multi-segment" if segments > 1 else "single-segment" if self.incremental else "resident"
        tiles = ((self.rows.name, rows), (self.cascade.axis.name, max(stream, 1)), *self._value_tiles())
        more = merge_options(self.cascade, rows, dict(options)["threads"]) if segments > 1 else ()
        return Schedule(strategy, tiles, segments, "", (*options, *more))


@dataclass(frozen=True)
class _Rows:
    """Softmax, norms, statistics, and products of a vector: each row by itself."""

    cascade: Cascade
    incremental: bool
    target: GpuTarget

    def schedules(self) -> Iterator[Schedule]:
        """Rows held whole where they fit in registers; streamed in pieces otherwise."""
        length = power_of_two(self.cascade.axis.extent)
        values = self._values()
        whole = next((n for n in (128, 256, 512, 1024) if length * values <= n * ELEMENTS), 1024)
        whole = WARP if self._suits_a_warp(length * values) else whole
        streamed = list(self._streamed())
        if not self._fits_whole():
            yield from streamed
            return
        resident = [self._schedule("resident", self._tile(length * values, whole), self.cascade.axis.extent, whole)]
        several = streamed and streamed[0].segments > 1
        yield from (*streamed, *resident) if several else (*resident, *streamed)

    def _fits_whole(self) -> bool:
        """Whether a block holds a row in registers."""
        return power_of_two(self.cascade.axis.extent) * self._values() <= 1024 * MOST_ELEMENTS

    def _suits_a_warp(self, length: int) -> bool:
        """Whether rounds of a selection, each a reduction, are worth a block of one warp: nothing to wait for in them.

        Shorter rows lie within a warp anyway.
        """
        lists = any(reduction.rank is not None for reduction in self.cascade.reductions)
        return lists and WARP * VECTOR < length <= WARP * MOST_ELEMENTS

    def _values(self) -> int:
        """Numbers for each point of the shared axis: the widest value of a reduction or product."""
        own = [prod(a.extent for a in r.element_axes if a not in self.cascade.rows) for r in self.cascade.reductions]
        inner = [r.over.extent for r in self.cascade.producers]
        return power_of_two(max((*own, *inner), default=1))

    def _streamed(self) -> Iterator[Schedule]:
        if not self.incremental:
            return
        values = self._values()
        piece = max(min(power_of_two(8192 // values), power_of_two(self.cascade.axis.extent) // 2), 1)
        piece = piece if piece < self.cascade.axis.extent else self.cascade.axis.extent
        rows = self._tile(piece * values, 128)
        along = _runs_along(self.cascade)
        # What runs along a row that a block holds whole is written without reading the row again.
        segments = _segments(self.cascade, not (along and self._fits_whole()), self._blocks(rows), self.target)
        threads = 256 if piece * values > 4096 else 128
        if segments > 1:
            own = max(power_of_two(self.cascade.axis.extent // segments), SHORTEST_PIECE) if along else piece
            yield self._schedule("multi-segment", rows, min(own, piece), threads, segments)
        if segments == 1 or along:
            yield self._schedule("single-segment", rows, piece, threads)

    def _tile(self, length: int, threads: int) -> int:
        """Rows of a block: as many as fill its threads, while every multiprocessor gets a block."""
        axis = self._row_axis()
        if axis is None:
            return 1
        size = power_of_two(max(threads * ELEMENTS // length, 1))
        while size > 1 and (size > axis.extent or self._blocks(size) < self.target.multiprocessors):
            size //= 2
        return size

    def _row_axis(self) -> Axis | None:
        """The axis tiled: the one along which rows lie side by side in memory, else the last."""
        along = contiguous_axis(self.cascade)
        if along in self.cascade.rows:
            return along
        return self.cascade.rows[-1] if self.cascade.rows else None

    def _blocks(self, size: int) -> int:
        axis = self._row_axis()
        return prod(-(-a.extent // size) if a == axis else a.extent for a in self.cascade.rows)

    def _schedule(self, strategy: str, rows: int, stream: int, threads: int, segments: int = 1) -> Schedule:
        axis = self._row_axis()
        tiles = [] if axis is None else [(axis.name, rows)]
        tiles.append((self.cascade.axis.name, max(stream, 1)))
        return Schedule(strategy, tuple(tiles), segments, "", (("threads", threads), ("stages", 0)))
