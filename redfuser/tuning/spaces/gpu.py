"""What may be tried on a GPU: strategies, segments, tiles, threads, pipeline stages, how warps share a product."""

from __future__ import annotations

from math import prod

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu.emission.emit import emit
from redfuser.codegen.gpu.emission.geometry import PRODUCT, power_of_two
from redfuser.codegen.gpu.emission.products import BY_COLUMNS
from redfuser.codegen.gpu.emission.script import Script
from redfuser.codegen.gpu.gate import MOST_REGISTERS, foreseen_problem, type_problem
from redfuser.codegen.gpu.merge_schedule import merge_options, value_axes
from redfuser.codegen.gpu.schedule import MOST_ELEMENTS, SHORTEST_SEGMENT, candidates
from redfuser.codegen.refusal import Refused
from redfuser.expr import Axis, Tensor, axes_of, loads
from redfuser.expr.evaluate import numpy_dtype
from redfuser.options import Fp32
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.strategies.build import build
from redfuser.tile.strategies.common import StrategyError, streams
from redfuser.tile.untuned.shapes import has_products, stationary_row
from redfuser.tuning.spaces.space import Knob, Limit, Point, Rule, Space, distinct, strategies

#: Tiles of matrix products: rows, and points of the streamed axis.
ROW_TILES, STREAM_TILES = (16, 32, 64, 128), (16, 32, 64, 128)
#: The same without them: rows side by side, and the pieces that a row is streamed in.
ROW_BLOCKS, PIECES = (1, 2, 4, 8, 16), (256, 1024, 4096)
PRODUCT_THREADS, ROW_THREADS = (32, 64, 128, 256), (128, 256, 512, 1024)
STAGES = (1, 2, 3)
#: Threads of a warp, and of the group of warps that some matrix instructions are for.
WARP, WARP_GROUP = 32, 128
#: More blocks of a cut axis than this for each multiprocessor only add merging.
BLOCKS_PER_MULTIPROCESSOR = 2
#: Columns of a block in a product without scores.
VALUE_TILE = 128


def gpu_space(cascade: Cascade, derivation: Derivation, target: GpuTarget, fp32: Fp32 = "tf32") -> Space:
    """The space of one cascade.

    Args:
        cascade: canonical, in the precision it is computed in.
        derivation: its verdict.
        target: the GPU.
        fp32: how products of float32 are computed.
    """
    return _GpuSpace(cascade, derivation, target, fp32).space()


class _GpuSpace:
    def __init__(self, cascade: Cascade, derivation: Derivation, target: GpuTarget, fp32: Fp32) -> None:
        self.cascade, self.derivation, self.target, self.fp32 = cascade, derivation, target, fp32
        self.default = candidates(cascade, derivation, target)[0]
        self.incremental = streams(cascade, derivation)
        self.rows = stationary_row(cascade) if has_products(cascade) else None
        self.products = self.rows is not None
        tiled = [axis for axis in cascade.rows if axis.name in dict(self.default.tiles)]
        self.row = tiled[0] if tiled else None
        self.values = value_axes(cascade)
        self.scripts: dict[Schedule, tuple[Script, ...]] = {}

    def space(self) -> Space:
        axis, usual = self.cascade.axis, dict(self.default.options)
        knobs = [Knob("strategy", strategies(self.default, self.incremental)), Knob("segments", self._segments())]
        if self.row is not None:
            knobs.append(
                Knob(f"tile {self.row.name}", self._tiles(self.row, ROW_TILES if self.products else ROW_BLOCKS))
            )
        knobs.append(Knob(f"tile {axis.name}", self._tiles(axis, STREAM_TILES if self.products else PIECES)))
        knobs += [Knob(f"tile {a.name}", distinct(self.default.tile(a, a.extent), a.extent)) for a in self._cut()]
        threads = PRODUCT_THREADS if self.products else ROW_THREADS
        knobs.append(Knob("threads", distinct(usual["threads"], *threads)))
        knobs.append(Knob("stages", distinct(usual["stages"], *(STAGES if self.products else ()))))
        if self.products:
            knobs.append(Knob(BY_COLUMNS, distinct(usual.get(BY_COLUMNS, 0), 0, 1)))
        return Space(tuple(knobs), self._schedule, self._program, self._rules(), self._limits())

    def _rules(self) -> tuple[Rule, ...]:
        return (
            Rule("cut an axis in segments without the strategy for it", self._segments_misplaced),
            Rule("have tiles longer than a segment", self._tile_too_long),
            Rule("keep a pipeline of one tile", self._pipeline_idle),
            Rule("leave warps without a share of the product", self._warps_idle),
            Rule("leave threads without elements", self._threads_idle),
            Rule("over shared memory", self._over_shared),
            Rule("over the registers of a thread", self._over_registers),
        )

    def _limits(self) -> tuple[Limit, ...]:
        return (
            Limit("over shared memory", lambda program: self._foreseen(program) == "shared memory"),
            Limit("over the registers of a thread", lambda program: self._foreseen(program) == "registers"),
        )

    def _segments(self) -> tuple[int, ...]:
        along = any(self.cascade.axis in output.axes for output in self.cascade.outputs)
        if not self.incremental or (along and self.products):
            return (1,)
        rows = prod(a.extent if a != self.row else -(-a.extent // self.default.tile(a)) for a in self.cascade.rows)
        most = min(
            BLOCKS_PER_MULTIPROCESSOR * self.target.multiprocessors // max(rows, 1),
            self.cascade.axis.extent // SHORTEST_SEGMENT,
        )
        return distinct(self.default.segments, 1, *(n for n in (2, 4, 8, 16, 32, 64, 128) if n <= most))

    def _tiles(self, axis: Axis, sizes: tuple[int, ...]) -> tuple[int, ...]:
        return distinct(self.default.tile(axis), *(n for n in sizes if n < axis.extent), axis.extent)

    def _cut(self) -> list[Axis]:
        """Value axes whose columns blocks may share out."""
        return [axis for axis in self.values if axis.name in dict(self.default.tiles)]

    def _schedule(self, point: Point) -> Schedule:
        axes = [*([self.row] if self.row is not None else []), self.cascade.axis, *self._cut()]
        tiles = tuple((axis.name, int(point[f"tile {axis.name}"])) for axis in axes)
        options = [("threads", int(point["threads"])), ("stages", int(point["stages"]))]
        options += [(BY_COLUMNS, 1)] if point.get(BY_COLUMNS) else []
        if self.rows is not None and int(point["segments"]) > 1:
            options += merge_options(self.cascade, int(point[f"tile {self.rows.name}"]), int(point["threads"]))
        return Schedule(str(point["strategy"]), tiles, int(point["segments"]), "", tuple(options))

    def _program(self, schedule: Schedule) -> TileProgram:
        """The program, where a script comes of it."""
        program = build(self.cascade, self.derivation, schedule)
        try:
            problem = type_problem(program, self.target)
            self.scripts[schedule] = emit(program, self.fp32)
        except Refused as refused:
            raise StrategyError(refused.reason) from refused
        if problem is not None:
            raise StrategyError(problem)
        return program

    def _foreseen(self, program: TileProgram) -> str:
        problems = [foreseen_problem(script, self.target) for script in self.scripts[program.schedule]]
        found = next((problem for problem in problems if problem is not None), None)
        return "" if found is None else "shared memory" if "shared memory" in found.text else "registers"

    def _segments_misplaced(self, schedule: Schedule) -> bool:
        return (schedule.segments > 1) != (schedule.strategy == "multi-segment")

    def _tile_too_long(self, schedule: Schedule) -> bool:
        axis = self.cascade.axis
        return schedule.segments > 1 and schedule.tile(axis) * schedule.segments > max(axis.extent, 1)

    def _pipeline_idle(self, schedule: Schedule) -> bool:
        """More stages than tiles to come."""
        tiles = -(-self.cascade.axis.extent // (schedule.tile(self.cascade.axis) * schedule.segments))
        return dict(schedule.options)["stages"] > max(tiles, 1)

    def _warps_idle(self, schedule: Schedule) -> bool:
        """Warps take rows, or columns, in pieces that matrix instructions work on."""
        if self.row is None or not self.products:
            return False
        options = dict(schedule.options)
        by_columns = bool(options.get(BY_COLUMNS))
        shared_out = max((a.extent for a in self.values), default=1) if by_columns else schedule.tile(self.row)
        fewest = WARP_GROUP if self.target.has("wgmma") else WARP
        most = max(shared_out // PRODUCT * WARP, fewest)
        return options["threads"] % fewest != 0 or options["threads"] > most

    def _threads_idle(self, schedule: Schedule) -> bool:
        return not self.products and self._held(schedule) < dict(schedule.options)["threads"]

    def _over_registers(self, schedule: Schedule) -> bool:
        """What threads hold of a tile and of results, without anything else."""
        most = MOST_REGISTERS if self.products else MOST_ELEMENTS
        return self._held(schedule) > most * dict(schedule.options)["threads"]

    def _held(self, schedule: Schedule) -> int:
        """Elements of a block's tile that lie in registers."""
        rows = schedule.tile(self.row) if self.row is not None else 1
        piece = self.cascade.axis.extent if schedule.strategy == "resident" else schedule.tile(self.cascade.axis)
        if not self.products:
            return rows * power_of_two(piece) * self._width()
        scores = schedule.tile(self.cascade.axis) if self.cascade.producers else 0
        return rows * (scores + max((schedule.tile(a, a.extent) for a in self.values), default=1))

    def _width(self) -> int:
        """Numbers for each point of the shared axis, where there are no matrix products."""
        own = [prod(a.extent for a in r.axes if a not in self.cascade.rows) for r in self.cascade.reductions]
        return power_of_two(max((*own, *(r.over.extent for r in self.cascade.producers)), default=1))

    def _over_shared(self, schedule: Schedule) -> bool:
        """What a pipeline keeps of the operands that the stream brings in."""
        if not self.products:
            return False
        stages, points = max(dict(schedule.options)["stages"], 1), schedule.tile(self.cascade.axis)
        return stages * points * self._point_bytes(schedule) > self.target.shared_block_kb * 1024

    def _point_bytes(self, schedule: Schedule) -> int:
        """Bytes of the operands at one point of the shared axis."""
        found: dict[Tensor, int] = {}
        for item in (*self.cascade.producers, *self.cascade.reductions):
            for node in loads(item.map):
                axes = axes_of(node)
                if node.tensor in self.cascade.inputs and self.cascade.axis in axes and self.row not in axes:
                    inner = prod(schedule.tile(a, a.extent) for a in axes - {self.cascade.axis, *self.cascade.rows})
                    found[node.tensor] = inner * numpy_dtype(node.tensor.dtype).itemsize
        return sum(found.values())
