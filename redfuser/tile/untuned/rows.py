"""Softmax, norms, statistics: each row by itself."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from redfuser.cascade.model import Cascade
from redfuser.expr import Axis
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.untuned.choice import FLOAT_BYTES, ROW_CHUNK, ROW_TILES, STREAM_TILE, Choice, fits_l2, segments_for
from redfuser.tile.untuned.shapes import contiguous_axis


@dataclass(frozen=True)
class Rows:
    """Softmax, norms, statistics: each row by itself.

    Args:
        whole: whether the streamed axis may not be cut.
    """

    cascade: Cascade
    incremental: bool
    target: CpuTarget
    whole: bool = False

    def choose(self) -> Choice:
        lanes = self._lanes()
        rows = self._row_tile(lanes)
        blocks = prod(a.extent for a in self.cascade.rows) // rows
        segments = segments_for(self.cascade, self.incremental and not self.whole, blocks, self.target.cores)
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
        sizes = [n for n in ROW_TILES if n <= lanes.extent and fits_l2(n * self._row_bytes(), self.target)]
        return min(sizes[0] if sizes else self.target.lanes, lanes.extent)

    def _row_bytes(self) -> int:
        return self.cascade.axis.extent * FLOAT_BYTES

    def _strategy(self, rows: int, segments: int, blocks: int) -> tuple[str, str]:
        if segments > 1:
            return "multi-segment", f"{blocks} blocks for {self.target.cores} cores, so the axis is cut in {segments}"
        along = any(self.cascade.axis in output.axes for output in self.cascade.outputs)
        if fits_l2(rows * self._row_bytes(), self.target):
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
