"""The untuned schedule for CPUs, and why.

By rule, and not the first of the cost model's ranking: that one takes a survey of the whole space, is for known sizes
only, and can't be told in a sentence. ``python -m tests.bench.tuning`` holds both against the best of all candidates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from redfuser.algebra.derivation import Derivation
from redfuser.binding import at_largest, dims_in
from redfuser.cascade.model import Cascade
from redfuser.expr import Axis, Load, axes_of, loads
from redfuser.extents import is_symbolic
from redfuser.indexing import linear
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.products import split_product
from redfuser.tile.strategies.apart import APART, Factors, find_factors
from redfuser.tile.strategies.common import streams
from redfuser.tile.strategies.skipping.hidden import NOTHING, Hidden, find_hidden
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN

#: Row tiles, the widest first: what register tiles of a matrix product are made of.
ROW_TILES = (64, 32, 16)
#: Tile of the streamed axis in a matrix product, and of a long row without one.
STREAM_TILE, ROW_CHUNK = 64, 1024
#: Blocks for each core before rows count as many, and the shortest segment worth a block of its own.
BLOCKS_PER_CORE, SHORTEST_SEGMENT = 2, 256
#: Rows that must share what the axis holds before looking at it first is worth while.
FEWEST_ROWS = 16
#: Rows and columns of a block of a product of bytes.
BYTE_ROW_TILES, COLUMN_TILE, WIDE_COLUMNS = (256, 128, 64, 32, 16), 64, 768
#: Most points of a symbolic axis that are streamed at once.
SYMBOLIC_CHUNK = 256
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Choice:
    """A schedule, and why it was chosen."""

    schedule: Schedule
    why: str


def default_schedule(cascade: Cascade, derivation: Derivation, target: CpuTarget) -> Choice:
    """The choice without measuring, from shapes and caches alone; for the largest sizes where some are symbolic.

    Args:
        cascade: verified.
        derivation: its verdict; without an incremental form only ``resident`` is chosen.
        target: the CPU.
    """
    products = has_products(cascade)
    hidden = find_hidden(cascade, derivation) if products and streams(cascade, derivation) else NOTHING
    if dims_in(cascade):
        return _symbolic(cascade, _choose(at_largest(cascade), at_largest(derivation), target, hidden))
    factors = find_factors(cascade) if target.multiplies_bytes else None
    if factors is not None and _columns(factors) >= COLUMN_TILE // 4:
        return _bytes(cascade, factors, target)
    return _choose(cascade, derivation, target, hidden)


def _choose(cascade: Cascade, derivation: Derivation, target: CpuTarget, hidden: Hidden) -> Choice:
    incremental = streams(cascade, derivation)
    if has_products(cascade):
        return _Products(cascade, incremental, target, stationary_row(cascade), hidden).choose()
    return _Rows(cascade, incremental, target).choose()


def _symbolic(cascade: Cascade, choice: Choice) -> Choice:
    """A choice made for the largest sizes, for all of them: tiles that what is left over can be cut down from."""
    shared, schedule = cascade.axis, choice.schedule
    tiles = dict(schedule.tiles)
    if is_symbolic(shared.extent):
        tiles[shared.name] = min(tiles[shared.name], SYMBOLIC_CHUNK)
        if schedule.segments > 1:
            schedule = replace(schedule, strategy="single-segment", segments=1)
    return replace(choice, schedule=replace(schedule, tiles=tuple(tiles.items())))


def _columns(factors: Factors) -> int:
    """Columns of a product of bytes; 0 where there is no single axis of them."""
    own = [a for a in factors.reduction.axes if a in axes_of(factors.right)]
    return own[0].extent if len(own) == 1 else 0


def _bytes(cascade: Cascade, factors: Factors, target: CpuTarget) -> Choice:
    """Row blocks as large as fit half the second-level cache and leave every core some; a few panels of columns."""
    column = next(a for a in factors.reduction.axes if a in axes_of(factors.right))
    row = max((a for a in factors.reduction.axes if a != column), key=lambda a: a.extent)
    width = _block_columns(row.extent, column.extent, target)
    fits = [n for n in BYTE_ROW_TILES if 2 * n * cascade.axis.extent <= target.l2_kb * 1024] or [BYTE_ROW_TILES[-1]]
    panels = -(-column.extent // width)
    enough = [n for n in fits if -(-row.extent // n) * panels >= BLOCKS_PER_CORE * target.cores]
    height = (enough or fits[-1:])[0]
    tiles = ((row.name, min(height, row.extent)), (column.name, width))
    along = (cascade.axis.name, max(min(ROW_CHUNK, cascade.axis.extent), 1))
    chosen = Schedule("resident", (*tiles, along), 1, cascade.axis.name, ((APART, 1),))
    return Choice(chosen, f"rows first, as bytes; then {height} of them against {width} columns at a time")


def _block_columns(rows: int, columns: int, target: CpuTarget) -> int:
    """Columns of a block of a product of bytes.

    Few rows have each panel packed in the block that needs it. Then blocks are as wide as leave every core some and
    their sums a quarter of the second-level cache, for rows of a weight are pages apart.
    """
    few = rows <= BYTE_ROW_TILES[0]
    room = min(target.l2_kb * 256 // (4 * rows), columns // (BLOCKS_PER_CORE * target.cores)) if few else 0
    for widest in (min(room, WIDE_COLUMNS), 2 * COLUMN_TILE if few else COLUMN_TILE):
        fitting = [n for n in range(16, widest + 1, 16) if columns % n == 0]
        if fitting and fitting[-1] * 2 > widest:
            return fitting[-1]
    return fitting[-1] if fitting else 16


def has_products(cascade: Cascade) -> bool:
    """Whether a matrix or vector product is part of the cascade."""
    own = any(set(r.element_axes) - set(cascade.rows) for r in cascade.reductions)
    return own or any(r.combiner == "sum" and len(loads(r.map)) > 1 for r in cascade.producers)


def stationary_row(cascade: Cascade) -> Axis | None:
    """The widest row axis that one operand of every product lacks: queries, against keys and values."""
    items = (*cascade.producers, *cascade.reductions)
    products = [r for r in items if split_product(r.map, r.axes, r.over, lambda a: a.extent) is not None]
    moving = [[n for n in loads(r.map) if cascade.axis in axes_of(n)] for r in products]
    shared = [
        row
        for row in cascade.rows
        if row.extent > 1 and products and all(any(row not in axes_of(n) for n in nodes) for nodes in moving)
    ]
    return max(shared, key=lambda a: a.extent, default=None)


def contiguous_axis(cascade: Cascade) -> Axis | None:
    """The axis along which the largest input that varies with the shared axis lies in memory, element by element."""
    nodes = [n for r in cascade.reductions for n in loads(r.map) if n.tensor in cascade.inputs]
    along = [n for n in nodes if cascade.axis in axes_of(n) and n.indices]
    if not along:
        return None
    largest: Load = max(along, key=lambda n: n.tensor.size)
    terms = dict(linear(largest.indices[-1]).terms)
    return next((atom for atom, step in terms.items() if isinstance(atom, Axis) and step == 1), None)


def _fits_l2(size: int, target: CpuTarget) -> bool:
    """Whether a tile leaves as much again of the second-level cache to what streams past it."""
    return 2 * size <= target.l2_kb * 1024


def _segments(cascade: Cascade, incremental: bool, blocks: int, cores: int) -> int:
    """How many segments give every core work; 1 where that isn't possible or needed."""
    splittable = incremental and not any(cascade.axis in o.axes for o in cascade.outputs)
    if not splittable or blocks >= BLOCKS_PER_CORE * cores:
        return 1
    wanted = -(-BLOCKS_PER_CORE * cores // max(blocks, 1))
    return max(min(wanted, cascade.axis.extent // SHORTEST_SEGMENT), 1)


@dataclass(frozen=True)
class _Products:
    """Attention and other cascades with matrix products.

    Args:
        rows: the axis that shares loads of an operand.
        hidden: what a mask hides, which may be skipped.
    """

    cascade: Cascade
    incremental: bool
    target: CpuTarget
    rows: Axis | None
    hidden: Hidden

    def choose(self) -> Choice:
        tile = self._row_tile()
        blocks = self._blocks(tile)
        segments = _segments(self.cascade, self.incremental, blocks, self.target.cores)
        strategy = "multi-segment" if segments > 1 else "single-segment" if self.incremental else "resident"
        chosen = self._schedule(strategy, tile, segments)
        return Choice(chosen, self._why(chosen, tile, blocks))

    def _row_tile(self) -> int:
        """The widest tile that leaves every core enough blocks, else the narrowest."""
        if self.rows is None:
            return 1
        sizes = self._row_tiles()
        enough = [size for size in sizes if self._blocks(size) >= BLOCKS_PER_CORE * self.target.cores]
        return min((enough or sizes[-1:])[0], self.rows.extent)

    def _row_tiles(self) -> list[int]:
        """Tiles that the axis fills by half; resident ones only as far as they fit the second-level cache."""
        extent = self.rows.extent if self.rows else 1
        row_bytes = 0 if self.incremental else self.cascade.axis.extent * FLOAT_BYTES
        return [n for n in ROW_TILES if n < 2 * extent and _fits_l2(n * row_bytes, self.target)] or [ROW_TILES[-1]]

    def _blocks(self, tile: int) -> int:
        return prod(-(-a.extent // tile) if a == self.rows else a.extent for a in self.cascade.rows)

    def _schedule(self, strategy: str, tile: int, segments: int = 1) -> Schedule:
        tiles = [] if self.rows is None else [(self.rows.name, tile)]
        tiles += self._value_tiles(tile)
        tiles.append((self.cascade.axis.name, max(min(STREAM_TILE, self.cascade.axis.extent), 1)))
        fill_a_vector = self.rows is not None and 2 * self.rows.extent >= self.target.lanes
        lanes = self.rows.name if self.rows and fill_a_vector else ""
        options = ((SKIP_HIDDEN, 1),) if self._skips() and strategy != "resident" else ()
        return Schedule(strategy, tuple(tiles), segments, lanes, options)

    def _value_tiles(self, rows: int) -> list[tuple[str, int]]:
        """Wide value axes are cut so that an accumulator stays in the second-level cache."""
        own = dict.fromkeys(a for r in self.cascade.reductions for a in r.axes if a not in self.cascade.rows)
        large = [a for a in own if not _fits_l2(rows * a.extent * FLOAT_BYTES, self.target)]
        return [(a.name, 2 * STREAM_TILE) for a in large if all(a in output.axes for output in self.cascade.outputs)]

    def _why(self, chosen: Schedule, tile: int, blocks: int) -> str:
        rows = f"{tile} points of {self.rows.name} share each load" if self.rows else "one row a block"
        work = f"{rows}; {blocks} blocks for {self.target.cores} cores"
        if chosen.strategy == "multi-segment":
            return f"{work}, so {self.cascade.axis.name} is cut in {chosen.segments} segments"
        if chosen.strategy == "resident":
            return f"{work}; no incremental form, so the row stays in cache"
        return f"{work} stream {self.cascade.axis.name}{self._skipped()}"

    def _skips(self) -> bool:
        """Whether a mask hides something, and looking where is less work than what it saves."""
        many = self.rows is not None and self.rows.extent >= FEWEST_ROWS
        return bool(self.hidden) and many and self.cascade.axis.extent > STREAM_TILE

    def _skipped(self) -> str:
        if not self._skips():
            return ""
        allowed = "; a mask of finite numbers hides where scores allow it" if self.hidden.needs.visible else ""
        return f", without the tiles that the mask hides{allowed}"


@dataclass(frozen=True)
class _Rows:
    """Softmax, norms, statistics: each row by itself."""

    cascade: Cascade
    incremental: bool
    target: CpuTarget

    def choose(self) -> Choice:
        lanes = self._lanes()
        rows = self._row_tile(lanes)
        blocks = prod(a.extent for a in self.cascade.rows) // rows
        segments = _segments(self.cascade, self.incremental, blocks, self.target.cores)
        strategy, why = self._strategy(rows, segments, blocks)
        chosen = self._schedule(strategy, lanes, rows, segments)
        what = "each a list of its own" if self._lists() and lanes != self.cascade.axis else "the contiguous axis"
        return Choice(chosen, f"lanes along {lanes.name}, {what}; {why}")

    def _lanes(self) -> Axis:
        """The contiguous axis; rows side by side where each keeps a list, into which elements go one at a time."""
        along = contiguous_axis(self.cascade)
        widest = max(self.cascade.rows, key=lambda a: a.extent, default=self.cascade.axis)
        if self._lists() and widest.extent >= self.target.lanes:
            return widest
        return along if along in self.cascade.rows else self.cascade.axis

    def _lists(self) -> bool:
        return any(reduction.rank is not None for reduction in self.cascade.reductions)

    def _row_tile(self, lanes: Axis) -> int:
        """One row where the row itself fills vectors; else a multiple of the vector that fits the cache.

        Lists of one vector's rows stay in registers.
        """
        if lanes == self.cascade.axis:
            return 1
        if self._lists():
            return min(self.target.lanes, lanes.extent)
        sizes = [n for n in ROW_TILES if n <= lanes.extent and _fits_l2(n * self._row_bytes(), self.target)]
        return min(sizes[0] if sizes else self.target.lanes, lanes.extent)

    def _row_bytes(self) -> int:
        return self.cascade.axis.extent * FLOAT_BYTES

    def _strategy(self, rows: int, segments: int, blocks: int) -> tuple[str, str]:
        if segments > 1:
            return "multi-segment", f"{blocks} blocks for {self.target.cores} cores, so the axis is cut in {segments}"
        along = any(self.cascade.axis in output.axes for output in self.cascade.outputs)
        if _fits_l2(rows * self._row_bytes(), self.target):
            return "resident", "a row fits the second-level cache, where reading it again is cheaper than correcting"
        if self.incremental:
            again = " and again for the outputs along it" if along else ""
            return "single-segment", f"a row exceeds the second-level cache, so it is streamed once{again}"
        return "resident", "no incremental form exists, so the row is read once a pass"

    def _schedule(self, strategy: str, lanes: Axis, rows: int, segments: int) -> Schedule:
        chunk = ROW_CHUNK if lanes == self.cascade.axis else STREAM_TILE
        stream = min(chunk, self.cascade.axis.extent)
        tiles = [(self.cascade.axis.name, max(stream, 1))]
        if lanes != self.cascade.axis:
            tiles.insert(0, (lanes.name, rows))
        return Schedule(strategy, tuple(tiles), segments, lanes.name)
