"""What may be tried on a CPU: strategies, segments, tiles, lanes and the width of register tiles.

Packing is no choice of its own. What vectors would read across memory is always brought on chip in the other order
(:mod:`redfuser.codegen.cpu.lowering.staging`), which the lanes and tiles decide. What is read as it lies already (keys
and values, one number at a time for all lanes) was 5 to 14 % slower packed besides, in attention of 512 keys, and 2 to
8 % slower in MiniLM, whose heads lie 1.5 KB apart.
"""

from __future__ import annotations

from math import prod

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.cpu.machine import Machine
from redfuser.expr import Axis
from redfuser.expr.evaluate import numpy_dtype
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.strategies.build import build
from redfuser.tile.strategies.common import streams
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN
from redfuser.tile.untuned.default import default_schedule
from redfuser.tile.untuned.shapes import contiguous_axis, has_products, stationary_row
from redfuser.tuning.spaces.space import Knob, Limit, Point, Rule, Space, distinct, strategies

ROW_TILES = (64, 16, 32, 96, 128)
STREAM_TILES = (64, 32, 128, 256)
ROW_CHUNKS = (1024, 256, 512, 4096)
#: More segments than this for each core only add merging; shorter ones than this only add states.
SEGMENTS_PER_CORE, SHORTEST_SEGMENT = 4, 64
#: Wider value axes than this may be cut, into tiles of so many points.
VALUE_TILES = (64, 128)
#: On-chip buffers may take so many times the second-level cache before a candidate isn't worth trying.
CACHE_SHARE = 2


def cpu_space(cascade: Cascade, derivation: Derivation, target: CpuTarget) -> Space:
    """The space of one cascade.

    Args:
        cascade: canonical, in the precision it is computed in.
        derivation: its verdict.
        target: the CPU.
    """
    return _CpuSpace(cascade, derivation, target).space()


class _CpuSpace:
    def __init__(self, cascade: Cascade, derivation: Derivation, target: CpuTarget) -> None:
        self.cascade, self.derivation, self.target = cascade, derivation, target
        self.default = default_schedule(cascade, derivation, target).schedule
        self.incremental = streams(cascade, derivation)
        self.row = self._row()
        self.values = self._value_axes()

    def space(self) -> Space:
        knobs = [Knob("strategy", strategies(self.default, self.incremental)), Knob("segments", self._segments())]
        if self.row is not None:
            knobs.append(Knob(f"tile {self.row.name}", self._tiles(self.row, ROW_TILES)))
        knobs.append(Knob(f"tile {self.cascade.axis.name}", self._stream_tiles()))
        knobs += [Knob(f"tile {a.name}", (a.extent, *(n for n in VALUE_TILES if n < a.extent))) for a in self.values]
        knobs += [Knob("lanes", self._lanes()), Knob("vectors", self._vectors())]
        if SKIP_HIDDEN in dict(self.default.options):
            knobs.append(Knob(SKIP_HIDDEN, (1, 0)))
        rules = (
            Rule("cut an axis in segments without the strategy for it", self._segments_misplaced),
            Rule("have tiles longer than a segment", self._tile_too_long),
            Rule("skip what a mask hides with the row on chip already", self._skip_misplaced),
            Rule("have lanes along a tile of one point", self._lanes_idle),
            Rule("have a register tile wider than the tile along lanes", self._vectors_idle),
        )
        limits = (Limit("over the second-level cache", self._over_cache), Limit("leave cores idle", self._idle))
        return Space(tuple(knobs), self._schedule, self._program, rules, limits)

    def _row(self) -> Axis | None:
        """The row axis worth a tile: the one that shares loads, or that lies along the lanes."""
        if has_products(self.cascade):
            return stationary_row(self.cascade)
        along = contiguous_axis(self.cascade)
        rows = [a for a in self.cascade.rows if a.extent > 1]
        return along if along in rows else (rows[-1] if rows else None)

    def _value_axes(self) -> list[Axis]:
        own = dict.fromkeys(a for r in self.cascade.reductions for a in r.axes if a not in self.cascade.rows)
        return [a for a in own if all(a in output.axes for output in self.cascade.outputs)]

    def _segments(self) -> tuple[int, ...]:
        along = any(self.cascade.axis in output.axes for output in self.cascade.outputs)
        if not self.incremental or along:
            return (1,)
        most = min(SEGMENTS_PER_CORE * self.target.cores, self.cascade.axis.extent // SHORTEST_SEGMENT)
        return distinct(self.default.segments, 1, *(n for n in (2, 4, 8, 16, 32, 64, 128) if n <= most))

    def _tiles(self, axis: Axis, sizes: tuple[int, ...]) -> tuple[int, ...]:
        usual = self.default.tile(axis)
        return distinct(usual, *(*(n for n in sizes if n < axis.extent), 1 if usual == 1 else axis.extent)[:6])

    def _stream_tiles(self) -> tuple[int, ...]:
        axis = self.cascade.axis
        sizes = STREAM_TILES if has_products(self.cascade) else (*ROW_CHUNKS, axis.extent)
        return distinct(self.default.tile(axis), *(max(min(n, axis.extent), 1) for n in sizes))

    def _lanes(self) -> tuple[str, ...]:
        rows = (self.row.name,) if self.row is not None else ()
        if has_products(self.cascade):
            return distinct(self.default.lanes, *(rows or ("",)))
        return distinct(self.default.lanes, *rows, self.cascade.axis.name)

    def _vectors(self) -> tuple[int, ...]:
        widest = Machine.of(self.target).vectors
        return (widest, widest // 2)

    def _schedule(self, point: Point) -> Schedule:
        tiles = [(axis.name, int(point[f"tile {axis.name}"])) for axis in self._tiled()]
        kept = [(name, size) for name, size in tiles if name not in {a.name for a in self.values if a.extent == size}]
        vectors = int(point["vectors"])
        options = {"vectors": vectors} if vectors != Machine.of(self.target).vectors else {}
        if point.get(SKIP_HIDDEN):
            options[SKIP_HIDDEN] = 1
        strategy, segments, lanes = str(point["strategy"]), int(point["segments"]), str(point["lanes"])
        return Schedule(strategy, tuple(sorted(kept)), segments, lanes, tuple(sorted(options.items())))

    def _tiled(self) -> list[Axis]:
        return [*([self.row] if self.row is not None else []), *self.values, self.cascade.axis]

    def _program(self, schedule: Schedule) -> TileProgram:
        return build(self.cascade, self.derivation, schedule)

    def _segments_misplaced(self, schedule: Schedule) -> bool:
        return (schedule.segments > 1) != (schedule.strategy == "multi-segment")

    def _tile_too_long(self, schedule: Schedule) -> bool:
        axis = self.cascade.axis
        return schedule.segments > 1 and schedule.tile(axis) * schedule.segments > max(axis.extent, 1)

    def _skip_misplaced(self, schedule: Schedule) -> bool:
        return SKIP_HIDDEN in dict(schedule.options) and schedule.strategy == "resident"

    def _width(self, schedule: Schedule) -> int:
        """Points along the lanes; 0 where the back end chooses them."""
        axis = next((a for a in self._tiled() if a.name == schedule.lanes), None)
        return 0 if axis is None else schedule.tile(axis)

    def _lanes_idle(self, schedule: Schedule) -> bool:
        return self._width(schedule) == 1

    def _vectors_idle(self, schedule: Schedule) -> bool:
        """A narrower register tile makes other code only where the tile is wider than it."""
        narrow = dict(schedule.options).get("vectors")
        return narrow is not None and 0 < self._width(schedule) <= narrow * self.target.lanes

    def _over_cache(self, program: TileProgram) -> bool:
        return on_chip_bytes(program) > CACHE_SHARE * self.target.l2_kb * 1024

    def _idle(self, program: TileProgram) -> bool:
        """Fewer blocks than cores, where another schedule has enough."""
        most = prod(a.extent for a in self.cascade.rows) * max(self._segments())
        return prod(tile.count for tile in program.phases[0].grid) < min(self.target.cores, most)


def on_chip_bytes(program: TileProgram) -> int:
    """Bytes of all buffers of a block, in the phase that has most."""
    return max(
        sum(b.tensor.size * numpy_dtype(b.tensor.dtype).itemsize for b in phase.buffers) for phase in program.phases
    )
