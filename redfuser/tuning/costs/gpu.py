"""The cost model for GPUs: what a tile program's blocks move and compute, at the rates of the target's description.

Nothing is measured: shared memory and registers come from the script before it is compiled, and from the compiler's
report afterwards. What counts is the order of the candidates of one cascade.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

from redfuser.codegen.gpu.emission.emit import THREADS, emit
from redfuser.codegen.gpu.emission.precision import common_dtype, exact_dtype, strip_casts
from redfuser.codegen.gpu.gate import MOST_REGISTERS, REGISTER_UNIT
from redfuser.expr import COMPARISONS, Axis, Expr, Load, Op, Tensor, axes_of, loads
from redfuser.expr.evaluate import numpy_dtype
from redfuser.options import Fp32
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Contract, Fill, Map, Phase, Reduce, Schedule, Statement, Store, Stream, TileProgram
from redfuser.tile.sharing import EXPENSIVE, values
from redfuser.tuning.cost import Cost, stream_length

#: Starting a kernel, in microseconds; registers a thread needs beside the values it holds.
LAUNCH_US, OTHER_REGISTERS = 3.0, 40
#: Lanes of float32 arithmetic of a multiprocessor, by architecture; special functions run at an eighth of the rate.
LANES, USUAL_LANES, SPECIAL = {"sm_80": 64}, 128, 8
#: Bytes of shared memory that a multiprocessor reads in a cycle; how much faster than memory the second-level cache is.
SHARED_BYTES, CACHE_SPEED = 128, 2.5
#: A multiprocessor by itself draws no more than so many times its share of the memory's bandwidth.
DRAW = 2.0
#: Rows that one read of the other operand serves: of a warp, or of a group of four with the instructions for it.
WARP_ROWS, GROUP_ROWS = 16, 64
#: What is left of the peak without the instructions for groups, on a device that has them.
ALONE = 0.6
#: Warps of a multiprocessor that hide the latency of arithmetic.
ENOUGH_WARPS = 8


@dataclass(frozen=True)
class Footprint:
    """What one block takes: registers of a thread, bytes of shared memory."""

    registers: int
    shared: int


@dataclass(frozen=True)
class GpuModel:
    """Judges programs for one GPU.

    Args:
        target: its rates and limits.
        fp32: how products of float32 are computed.
    """

    target: GpuTarget
    fp32: Fp32 = "tf32"

    def cost(self, program: TileProgram, reported: Sequence[Footprint] = ()) -> Cost:
        """The modelled cost of one execution, its phases added up; one without blocks isn't launched.

        Args:
            reported: by the compiler, one a phase; estimated from the scripts without.
        """
        footprints = reported or [
            Footprint(min(script.registers + OTHER_REGISTERS, MOST_REGISTERS), script.shared_bytes)
            for script in emit(program, self.fp32)
        ]
        pairs = zip(program.phases, footprints, strict=True)
        launched = [pair for pair in pairs if all(tile.count for tile in pair[0].grid)]
        return Cost.total([self._phase(*pair, program.schedule) for pair in launched])

    def resident(self, footprint: Footprint, threads: int) -> int:
        """Blocks that a multiprocessor holds at once; at least one."""
        warp = ceil(footprint.registers * 32 / REGISTER_UNIT) * REGISTER_UNIT
        limits = (
            self.target.shared_kb * 1024 // max(footprint.shared, 1),
            self.target.threads // threads,
            self.target.registers // max(warp * ceil(threads / 32), 1),
        )
        return max(min(limits), 1)

    def _phase(self, phase: Phase, footprint: Footprint, schedule: Schedule) -> Cost:
        target, options = self.target, dict(schedule.options)
        threads = options.get("threads", THREADS)
        work = _Work(phase, schedule, GROUP_ROWS if target.has("wgmma") else WARP_ROWS)
        blocks = prod(tile.count for tile in phase.grid)
        together = min(self.resident(footprint, threads), ceil(blocks / target.multiprocessors))
        # The multiprocessor that has most to do decides; with many blocks the shares are even.
        share = blocks / target.multiprocessors
        share = share if share >= 8 * together else ceil(share)
        hidden = min(together * threads / 32 / ENOUGH_WARPS, 1.0)
        arithmetic = share * work.cycles(self) / max(hidden, 0.25)
        shared = share * work.shared_bytes / SHARED_BYTES
        drawn = min(DRAW * min(blocks, target.multiprocessors) / target.multiprocessors, 1.0)
        whole = sum(work.whole.values())
        again = blocks * sum(work.moved.values())
        fits = whole <= target.l2_mb * 2**20
        memory = max(whole / drawn, 0 if fits else again) / target.bandwidth_gbs / 1e3
        memory = max(memory, again / drawn / (CACHE_SPEED * target.bandwidth_gbs) / 1e3)
        # A block alone, without a pipeline, waits for what it loads.
        waits = memory if together * max(options.get("stages", 0), 1) < 2 else 0.0
        return Cost(
            launch=LAUNCH_US,
            arithmetic=arithmetic / self.clock_mhz,
            cache=shared / self.clock_mhz + waits,
            memory=memory,
            memory_bytes=int(whole if fits else max(whole, again)),
        )

    @property
    def lanes(self) -> int:
        """Lanes of float32 arithmetic of one multiprocessor."""
        return LANES.get(self.target.arch, USUAL_LANES)

    @property
    def clock_mhz(self) -> float:
        """What the peak of float32 arithmetic implies."""
        return self.target.fp32_tflops * 1e6 / (self.target.multiprocessors * self.lanes * 2)

    def multiply_adds(self, dtype: str) -> float:
        """Of matrix products, a cycle of one multiprocessor."""
        rates = {"float16": self.target.fp16_tflops, "bfloat16": self.target.fp16_tflops, "int8": self.target.int8_tops}
        rates |= {"float8_e4m3fn": self.target.fp8_tflops, "float8_e5m2": self.target.fp8_tflops}
        fp32 = {"tf32": self.target.tf32_tflops, "3xtf32": self.target.tf32_tflops / 3}
        rate = rates.get(dtype) or fp32.get(self.fp32) or self.target.fp32_tflops
        return rate * 1e6 / (2 * self.clock_mhz * self.target.multiprocessors)


@dataclass(frozen=True)
class _Leaf:
    """A statement that does something, the sizes it runs over, how often a block runs it."""

    statement: Fill | Map | Reduce | Contract | Store
    sizes: Mapping[Axis, int]
    times: float

    def points(self, axes: Iterable[Axis]) -> float:
        """Points that a block visits along some axes, all turns together."""
        return self.times * prod(self.sizes.get(axis, axis.extent) for axis in axes)

    def operands(self) -> tuple[Expr, ...]:
        """What it computes from."""
        if isinstance(self.statement, Contract):
            return strip_casts(self.statement.left), strip_casts(self.statement.right)
        return () if isinstance(self.statement, Fill) else (self.statement.value,)


class _Work:
    """What one block of a phase does: operations, multiply-adds by type, bytes of shared memory and by tensor.

    Args:
        schedule: of the program.
        rows: of a product that one read of its other operand serves.
    """

    def __init__(self, phase: Phase, schedule: Schedule, rows: int) -> None:
        self.rows = rows
        self.chip = {buffer.tensor for buffer in phase.buffers}
        self.plain = self.special = self.shared_bytes = 0.0
        self.products: defaultdict[str, float] = defaultdict(float)
        self.moved: dict[Tensor, float] = {}
        self.whole: dict[Tensor, int] = {}
        for leaf in _leaves(phase.body, schedule, {tile.axis: tile.size for tile in phase.grid}, 1.0):
            self._add(leaf)

    def cycles(self, model: GpuModel) -> float:
        """Of one multiprocessor, for one block by itself; products and other arithmetic wait for each other."""
        products = sum(count / model.multiply_adds(dtype) for dtype, count in self.products.items())
        return products + (self.plain + SPECIAL * self.special) / model.lanes

    def _add(self, leaf: _Leaf) -> None:
        statement = leaf.statement
        if isinstance(statement, Contract):
            self._product(leaf, statement)
        elif isinstance(statement, Fill):
            self.plain += leaf.points(statement.target.axes)
        else:
            axes = statement.axes if isinstance(statement, Store) else statement.target.axes
            over = (statement.over,) if isinstance(statement, Reduce) else ()
            self._arithmetic(statement.value, leaf.points((*axes, *over)))
        if isinstance(statement, Store):
            self._move(statement.tensor, frozenset(statement.axes), leaf)
        for node in dict.fromkeys(node for operand in leaf.operands() for node in loads(operand)):
            if node.tensor not in self.chip:
                self._move(node.tensor, axes_of(node), leaf)

    def _product(self, leaf: _Leaf, statement: Contract) -> None:
        left, right = leaf.operands()
        dtype = common_dtype(exact_dtype(left, {}), exact_dtype(right, {}))
        heights = [leaf.sizes.get(axis, axis.extent) for axis in statement.target.axes]
        height = next((n for n in heights if n > 1), 1)
        # Groups take float32, as TF32, with neighbours along the summed axis alone: scores, not the values they weigh.
        grouped = height >= self.rows and (dtype != "float32" or all(_along(x, statement.over) for x in (left, right)))
        slower = 1.0 if grouped or self.rows < GROUP_ROWS else ALONE
        self.products[dtype] += leaf.points((*statement.target.axes, statement.over)) / slower
        again = max(height / (self.rows if grouped else WARP_ROWS), 1.0)
        read = leaf.points(axes_of(left)) + leaf.points(axes_of(right)) * again
        self.shared_bytes += read * numpy_dtype(dtype).itemsize

    def _arithmetic(self, value: Expr, points: float) -> None:
        operators = [node for node in values(value) if isinstance(node, Op) and node.name not in COMPARISONS | {"cast"}]
        dear = sum(node.name in EXPENSIVE for node in operators)
        self.special += dear * points
        self.plain += (1 + len(operators) - dear) * points

    def _move(self, tensor: Tensor, axes: frozenset[Axis], leaf: _Leaf) -> None:
        width = numpy_dtype(tensor.dtype).itemsize
        self.moved[tensor] = self.moved.get(tensor, 0.0) + leaf.points(axes) * width
        self.whole[tensor] = min(prod(axis.extent for axis in axes), tensor.size) * width


def _along(operand: Expr, over: Axis) -> bool:
    """Whether neighbours in memory lie along an axis."""
    return isinstance(operand, Load) and operand.indices[-1] == over


def _leaves(body: Sequence[Statement], schedule: Schedule, sizes: Mapping[Axis, int], times: float) -> Iterator[_Leaf]:
    for statement in body:
        if isinstance(statement, Stream):
            tile = max(min(statement.tile, statement.axis.extent), 1)
            inside = {**sizes, statement.axis: tile}
            yield from _leaves(statement.body, schedule, inside, times * stream_length(statement, schedule) / tile)
        else:
            yield _Leaf(statement, sizes, times)
