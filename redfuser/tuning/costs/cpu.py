"""The cost model for CPUs: counts what the generated code of a tile program does, at the machine's rates.

It reads the loop nests that code generation makes (vector axis, register tile, staging), so that what is vectorised,
gathered or transposed is known and not guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, prod

from redfuser.codegen.cpu.bytes.panels import QUAD
from redfuser.codegen.cpu.bytes.products import take_out
from redfuser.codegen.cpu.lowering.lanes import choose_lanes
from redfuser.codegen.cpu.lowering.nests import (
    BlockProduct,
    Nest,
    Product,
    Transpose,
    make_nest,
    merge_products,
    operands_of,
)
from redfuser.codegen.cpu.lowering.prefetch import Prefetch
from redfuser.codegen.cpu.lowering.staging import Staging
from redfuser.codegen.cpu.lowering.strides import Strides, value_loads
from redfuser.codegen.cpu.machine import Machine
from redfuser.expr import COMPARISONS, Axis, Expr, Op, Tensor, axes_of
from redfuser.expr.evaluate import numpy_dtype
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Phase, Reduce, Schedule, Statement, Store, Stream, TileProgram
from redfuser.tile.sharing import EXPENSIVE, values
from redfuser.tuning.cost import Cost, stream_length
from redfuser.tuning.costs.rates import CpuRates

#: Cost of an operator in exponentials; other expensive ones count as one and a half.
IN_EXPONENTIALS = {"exp": 1.0, "exp2": 0.9, "div": 0.4, "sqrt": 0.5, "rsqrt": 0.6, "sigmoid": 1.4, "tanh": 1.5}
#: Multiply-adds that must be under way to hide their latency; partial sums kept apart for it, at most.
IN_FLIGHT, SETS = 8, 4
#: A point that is transposed on its way, in vector additions: usually, and where its rows lie a page or more apart.
TRANSPOSED, TRANSPOSED_ACROSS_PAGES, PAGE_BYTES = 0.25, 4.0, 4096
#: Of a block's time, what the core that ends first waits for the others.
WAITED = 0.25
#: Comparing a vector with one place of a list and moving what lies behind, in vector additions.
INSERTION = 3.5
#: Products of bytes in the time of one of float32, a lane: in tiles of AMX; by VNNI, whose instruction makes four of
#: them; in pairs by AVX2, where four take two instructions that multiply, two that add and a share of the shifts that
#: make pairs, beside each other as far as there are units.
TILE_PRODUCTS, QUAD_PRODUCTS, PAIR_PRODUCTS = 32.0, float(QUAD), 4 / 3


@dataclass(frozen=True)
class CpuModel:
    """Judges programs for one CPU.

    Args:
        target: its caches and cores.
        rates: nominal or measured.
    """

    target: CpuTarget
    rates: CpuRates

    def cost(self, program: TileProgram) -> Cost:
        """The modelled cost of one execution, its phases added up."""
        machine = Machine.of(self.target, program.schedule)
        program = take_out(program) if machine.multiplies_bytes else program
        blocks = [_Block(phase, program.schedule, machine, self.rates) for phase in program.phases]
        return Cost.total([self._phase(block) for block in blocks])

    def _phase(self, block: _Block) -> Cost:
        blocks = block.count
        # With many blocks a core, the threads' shares are even.
        waves = blocks / self.target.cores if blocks >= 8 * self.target.cores else ceil(blocks / self.target.cores)
        waves += WAITED if blocks > 1 else 0.0
        moved = block.moved()
        # What a block touches stays in cache for the next one, or is fetched for every block and pass again.
        kept = block.chip_bytes + sum(part.block for part in moved) <= self.target.l2_kb * 1024
        fetched = int(sum(part.whole if kept else part.block * part.passes * blocks for part in moved))
        streamed = block.chip_traffic() + sum(part.block * part.passes for part in moved)
        return Cost(
            launch=self.rates.launch_us if blocks > 1 else 0.0,
            arithmetic=waves * block.arithmetic_ns() / 1e3,
            cache=waves * streamed / self.rates.cache_gbs / 1e3,
            memory=fetched / self.rates.memory_gbs / 1e3,
            memory_bytes=fetched,
        )


@dataclass(frozen=True)
class Moved:
    """Bytes of one tensor in memory: what a block touches in one pass, what all blocks touch, passes of a block."""

    block: float
    whole: int
    passes: int


@dataclass(frozen=True)
class _Visit:
    """A nest, the sizes it runs over, how often a block runs it."""

    nest: Nest
    strides: Strides
    times: float

    @property
    def sizes(self) -> Mapping[Axis, int]:
        return self.strides.sizes

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Every axis it runs over, the one that is folded too."""
        leaf = self.nest.leaf
        axes = leaf.axes if isinstance(leaf, Store | Prefetch) else leaf.target.axes
        return (*axes, leaf.over) if isinstance(leaf, Reduce | Product | BlockProduct) else axes

    def vectors(self, lanes: int) -> float:
        """Vector instructions that touch every point once."""
        points = prod(self.sizes[a] for a in self.axes)
        if self.nest.vector is None:
            return points
        width = self.sizes[self.nest.vector]
        return points / width * ceil(width / lanes)


class _Block:
    """What one block of a phase does."""

    def __init__(self, phase: Phase, schedule: Schedule, machine: Machine, rates: CpuRates) -> None:
        self.schedule, self.machine, self.rates = schedule, machine, rates
        self.lanes = choose_lanes(phase, schedule.lanes, machine)
        self.count = prod(tile.count for tile in phase.grid)
        tiles = {tile.axis: tile.size for tile in phase.grid}
        staging = Staging(phase, machine, self.lanes, tiles)
        body = staging.run().body
        self.layouts = staging.layouts
        self.visits = list(self._visit(body, tiles, 1.0))
        sizes = (layout.size * numpy_dtype(tensor.dtype).itemsize for tensor, layout in self.layouts.items())
        self.chip_bytes = sum(sizes)

    def _visit(self, body: Sequence[Statement], tiles: Mapping[Axis, int], times: float) -> Iterator[_Visit]:
        for leaf in merge_products(body):
            if isinstance(leaf, Stream):
                length = stream_length(leaf, self.schedule)
                tile = max(min(leaf.tile, ceil(length)), 1)
                yield from self._visit(leaf.body, {**tiles, leaf.axis: tile}, times * length / tile)
                continue
            axes = leaf.axes if isinstance(leaf, Store | Prefetch) else leaf.target.axes
            space = (*axes, leaf.over) if isinstance(leaf, Reduce | Product | BlockProduct) else axes
            strides = Strides(self.layouts, {a: tiles.get(a, a.extent) for a in space})
            yield _Visit(make_nest(leaf, strides, self.lanes), strides, times)

    def arithmetic_ns(self) -> float:
        """Time of all vector instructions."""
        return sum(visit.times * self._visit_ns(visit) for visit in self.visits)

    def _visit_ns(self, visit: _Visit) -> float:
        leaf, lanes = visit.nest.leaf, self.machine.lanes
        if isinstance(leaf, Prefetch):
            return 0.0
        if isinstance(leaf, Product):
            around = prod(visit.sizes[a] for a in leaf.target.axes) / lanes * self._value_ns(leaf.finish)
            return visit.vectors(lanes) * self._multiply_add_ns(visit) + around
        if isinstance(leaf, BlockProduct):
            products = prod(visit.sizes[a] for a in visit.axes) / lanes
            return products * self.rates.multiply_add_ns / _byte_products(self.machine)
        if isinstance(leaf, Transpose):
            points = prod(visit.sizes[a] for a in visit.axes)
            return points * (_transposed(leaf, visit) * self.rates.simple_ns + self._dear_ns(leaf.value) / lanes)
        instructions = visit.vectors(lanes)
        if isinstance(leaf, Reduce) and leaf.rank is not None:
            places = visit.sizes[leaf.rank]
            return instructions / places * (self._value_ns(leaf.value) + places * INSERTION * self.rates.simple_ns)
        vector = visit.nest.vector
        gathers = 0
        if vector is not None:
            gathers = sum(visit.strides.of_load(n, vector) not in (0, 1) for n in value_loads(leaf.value))
        return instructions * (self._value_ns(leaf.value) + gathers * lanes / 2 * self.rates.simple_ns)

    def _value_ns(self, value: Expr) -> float:
        """One vector of a value: its operators, and a load or store besides."""
        operators = [n for n in values(value) if isinstance(n, Op) and n.name not in COMPARISONS | {"cast"}]
        cheap = sum(n.name not in EXPENSIVE for n in operators)
        return self._dear_ns(value) + (0.5 + 0.5 * cheap) * self.rates.simple_ns

    def _dear_ns(self, value: Expr) -> float:
        """The expensive operators of one vector of a value."""
        dear = [n.name for n in values(value) if isinstance(n, Op) and n.name in EXPENSIVE]
        return sum(IN_EXPONENTIALS.get(name, 1.5) for name in dear) * self.rates.exp_ns

    def _multiply_add_ns(self, visit: _Visit) -> float:
        """One vector multiply-add of a register tile: held up by loads, or by latency where the tile is small."""
        nest, sizes = visit.nest, visit.sizes
        assert isinstance(nest.leaf, Product)
        width = sizes[nest.vector] if nest.vector is not None else 1
        vectors = ceil(min(self.machine.chunk(width), width) / self.machine.lanes)
        rows = min(self.machine.rows(vectors), sizes[nest.block] if nest.block is not None else 1)
        tile = rows * vectors
        independent = tile * max(min(IN_FLIGHT // tile, SETS), 1) if not nest.leaf.dots else IN_FLIGHT
        loads = (rows + vectors) / tile if not nest.leaf.dots else 1.5
        return self.rates.multiply_add_ns * max(1.0, loads, IN_FLIGHT / independent)

    def chip_traffic(self) -> float:
        """Bytes read from buffers beyond what the first-level cache holds, product operands aside."""
        if self.chip_bytes <= self.machine.cache_bytes // 40:
            return 0.0
        total = 0.0
        for visit in self.visits:
            if not isinstance(visit.nest.leaf, Product | BlockProduct | Prefetch):
                nodes = [n for part in operands_of(visit.nest.leaf) for n in value_loads(part)]
                inner = [n for n in nodes if n.tensor in self.layouts]
                total += visit.times * sum(
                    4 * prod(visit.sizes[a] for a in axes_of(n) if a in visit.sizes) for n in inner
                )
        return total

    def moved(self) -> list[Moved]:
        """Traffic with memory, tensor by tensor."""
        inside: dict[Tensor, float] = {}
        everywhere: dict[Tensor, int] = {}
        passes: dict[Tensor, int] = {}
        for visit in self.visits:
            for tensor, axes in _in_memory(visit.nest, self.layouts):
                points = visit.times * prod(visit.sizes.get(a, 1) for a in axes)
                inside[tensor] = max(inside.get(tensor, 0.0), min(points, tensor.size))
                everywhere[tensor] = max(everywhere.get(tensor, 0), min(prod(a.extent for a in axes), tensor.size))
                passes[tensor] = passes.get(tensor, 0) + 1
        return [
            Moved(inside[t] * (width := numpy_dtype(t.dtype).itemsize), everywhere[t] * width, passes[t])
            for t in inside
        ]


def _byte_products(machine: Machine) -> float:
    """Products of bytes that a lane makes in the time of one of float32."""
    if machine.has_tiles:
        return TILE_PRODUCTS
    return QUAD_PRODUCTS if machine.has_vnni else PAIR_PRODUCTS


def _transposed(leaf: Transpose, visit: _Visit) -> float:
    """What one transposed point costs, in vector additions."""
    assert visit.nest.vector is not None
    steps = [4 * visit.strides.of_load(node, visit.nest.vector) for node in value_loads(leaf.value)]
    return TRANSPOSED_ACROSS_PAGES if max(steps, default=0) >= PAGE_BYTES else TRANSPOSED


def _in_memory(nest: Nest, layouts: Mapping[Tensor, object]) -> Iterator[tuple[Tensor, frozenset[Axis]]]:
    """Tensors in memory that a nest reads or writes, each with the axes it varies along."""
    leaf = nest.leaf
    if isinstance(leaf, Store):
        yield leaf.tensor, frozenset(leaf.axes)
    for node in {n for part in operands_of(leaf) for n in value_loads(part)}:
        if node.tensor not in layouts:
            yield node.tensor, axes_of(node)
