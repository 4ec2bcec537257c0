"""Attention and other cascades with matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from redfuser.cascade.model import Cascade
from redfuser.expr import Axis
from redfuser.expr.evaluate import numpy_dtype
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.strategies.skipping.hidden import Hidden
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN
from redfuser.tile.untuned.choice import (
    BLOCKS_PER_CORE,
    FLOAT_BYTES,
    ROW_TILES,
    STREAM_TILE,
    Choice,
    fits_l2,
    segments_for,
)

#: Rows that must share what the axis holds before looking at it first is worth while, and before arithmetic counts more
#: than reading.
FEWEST_ROWS = 16
#: Points that a product may add up one after the other: of four times as many, float32 loses more than it may.
LONGEST_SEGMENT = 8192


@dataclass(frozen=True)
class Products:
    """Attention and other cascades with matrix products.

    Args:
        rows: the axis that shares loads of an operand.
        hidden: what a mask hides, which may be skipped.
        whole: whether the streamed axis may not be cut.
    """

    cascade: Cascade
    incremental: bool
    target: CpuTarget
    rows: Axis | None
    hidden: Hidden
    whole: bool = False

    def choose(self) -> Choice:
        tile = self._row_tile()
        blocks = self._blocks(tile)
        fewest = max(-(-self.cascade.axis.extent // LONGEST_SEGMENT), 1)
        splits = self.incremental and not self.whole
        segments = segments_for(self.cascade, splits, blocks, self.target.cores, fewest)
        strategy = "multi-segment" if segments > 1 else "single-segment" if self.incremental else "resident"
        if strategy == "single-segment" and self._reads_on_end(tile):
            strategy = "resident"
        chosen = self._schedule(strategy, tile, segments)
        return Choice(chosen, self._why(chosen, tile, blocks))

    def _reads_on_end(self, tile: int) -> bool:
        """Whether few rows hold all their points on chip, so that operands are read one after the other.

        Decoding waits for its operands: in turn by tiles they came 1.1 to 1.7 times as slowly out of the last-level
        cache. What exceeds that is streamed, since a tile is then brought from memory beside the work on another.
        """
        row_bytes = tile * self.cascade.axis.extent * FLOAT_BYTES
        few = tile < FEWEST_ROWS and not self.whole and fits_l2(row_bytes, self.target)
        operands = sum(t.size * numpy_dtype(t.dtype).itemsize for t in self.cascade.inputs)
        return few and operands <= self.target.l3_kb * 1024

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
        return [n for n in ROW_TILES if n < 2 * extent and fits_l2(n * row_bytes, self.target)] or [ROW_TILES[-1]]

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
        large = [a for a in own if not fits_l2(rows * a.extent * FLOAT_BYTES, self.target)]
        return [(a.name, 2 * STREAM_TILE) for a in large if all(a in output.axes for output in self.cascade.outputs)]

    def _why(self, chosen: Schedule, tile: int, blocks: int) -> str:
        rows = f"{tile} points of {self.rows.name} share each load" if self.rows else "one row a block"
        work = f"{rows}; {blocks} blocks for {self.target.cores} cores"
        if chosen.strategy == "multi-segment":
            longest = self.cascade.axis.extent > LONGEST_SEGMENT
            exact = f" and sums of {LONGEST_SEGMENT} points at most" if longest else ""
            return f"{work}{exact}, so {self.cascade.axis.name} is cut in {chosen.segments} segments"
        if chosen.strategy == "resident" and self.incremental:
            return f"{work}; few points stay in cache while operands are read one after the other"
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
