"""The innermost statements: elementwise values, reductions, stores and transpositions on vectors."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.lowering.nests import Nest, Transpose, operands_of
from redfuser.codegen.cpu.lowering.prefetch import Prefetch
from redfuser.codegen.cpu.lowering.region import Region
from redfuser.codegen.cpu.values.builder import Builder, matched
from redfuser.codegen.cpu.values.expressions import Translator
from redfuser.codegen.cpu.values.types import computed
from redfuser.codegen.cpu.values.vectors import extremum, extremum_of_numbers, fold, level, transpose, typed
from redfuser.expr import Axis, Expr, Op, index, op
from redfuser.tile.ir import Map, Reduce, Store
from redfuser.tile.monoid import identity
from redfuser.tile.sharing import values

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

#: Loops over at most this many points are unrolled.
UNROLL = 16
#: Vectors that exponentials are taken of at once where they are long chains of instructions, to fill their latency.
TOGETHER = 2


@dataclass(frozen=True)
class Partial:
    """Accumulators of a reduction along the vector: one for each lane and row.

    Args:
        array: flat, rows of ``width`` elements.
        width: lanes, of several vectors.
    """

    array: Array
    width: int


class Leaves:
    """Writes leaves whose loops are all open.

    Args:
        builder: where statements go.
        translator: gives values.
        lanes: elements of one vector.
        passing: extrema that may pass over NaNs.
    """

    def __init__(self, builder: Builder, translator: Translator, lanes: int, passing: Collection[Reduce] = ()) -> None:
        self.passing = passing
        self.chains = not translator.machine.scales
        self.builder = builder
        self.translator = translator
        self.access = translator.access
        self.lanes = lanes
        self._partials: dict[int, Partial] = {}

    def vectors(self, width: int, together: int = 1) -> Iterator[tuple[Expr, int]]:
        """Cut ``width`` points into vectors; what the loop's body writes is repeated for each: (first point, lanes).

        Args:
            together: vectors that make a wide one, where so many divide the points.
        """
        lanes = self.lanes * together if width % (self.lanes * together) == 0 else self.lanes
        full, rest = divmod(width, lanes)
        if full:
            with self.builder.loop("v", full, "unroll") as v:
                yield op("mul", v, index(lanes)), lanes
        if rest:
            yield index(full * lanes), rest

    def write(self, nests: Sequence[Nest], region: Region) -> None:
        """Elementwise leaves that run over the same points, vector by vector."""
        first = nests[0]
        axes = [a for a in first.axes if a != first.vector and region.width(a) > 1]
        for rows, inner in self._rows(axes, region):
            if first.vector is None or inner.width(first.vector) == 1:
                self._write_all(nests, inner, rows, index(0))
                continue
            for start, width in self.vectors(inner.width(first.vector), self._together(nests)):
                self._write_all(nests, inner.along(first.vector, start, width), rows, start)

    def _together(self, nests: Sequence[Nest]) -> int:
        """Vectors to write at once."""
        nodes = (node for nest in nests for part in operands_of(nest.leaf) for node in values(part))
        return TOGETHER if self.chains and any(isinstance(n, Op) and n.name == "exp" for n in nodes) else 1

    def alike(self, nest: Nest, other: Nest, region: Region) -> bool:
        """Whether two leaves can be written together: elementwise, over the same points."""
        elementwise = all(isinstance(n.leaf, Map | Reduce | Store | Prefetch) for n in (nest, other))
        if not elementwise or nest.vector != other.vector:
            return False
        return [a for a in nest.axes if region.width(a) > 1] == [a for a in other.axes if region.width(a) > 1]

    def _rows(self, axes: Sequence[Axis], region: Region) -> Iterator[tuple[Expr, Region]]:
        """Loops over all points of ``axes``: (number of the point, counted row by row; the region there)."""
        if not axes:
            yield index(0), region
            return
        width = region.width(axes[0])
        with self.builder.loop("r", width, "unroll" if width <= UNROLL else "serial") as r:
            inside = prod(region.width(a) for a in axes[1:])
            for number, inner in self._rows(axes[1:], region.narrow(axes[0], r, 1)):
                yield op("add", op("mul", r, index(inside)), number), inner

    def _write_all(self, nests: Sequence[Nest], region: Region, row: Expr, start: Expr) -> None:
        for nest in nests:
            leaf = nest.leaf
            if isinstance(leaf, Prefetch):
                self.access.prefetch(leaf, region.element(0))
                continue
            assert isinstance(leaf, Map | Reduce | Store)
            value = self.translator.value(leaf.value, region)
            if isinstance(leaf, Map):
                self.access.put_on_chip(leaf.target.tensor, region, value)
            elif isinstance(leaf, Store):
                self.access.put_in_memory(leaf.tensor, leaf.indices, region, value)
            elif nest.folds_lanes:
                self._accumulate(leaf, region, value, row, start)
            elif leaf.rank is not None:
                self._insert(leaf, leaf.rank, region, value)
            else:
                present = self.access.on_chip(leaf.target.tensor, region)
                self.access.put_on_chip(leaf.target.tensor, region, self._joined(leaf, present, value))

    def _insert(self, leaf: Reduce, rank: Axis, region: Region, value: PrimExpr) -> None:
        """A pair into a sorted list: each place takes the better of what it holds and what its neighbour gives up."""
        best, worst = ("max", "min") if leaf.combiner == "topk" else ("min", "max")
        value = self.builder.bind("candidate", value)
        last = rank.extent - 1

        def held(place: Expr) -> tuple[Region, PrimExpr]:
            where = region.narrow(rank, place, 1)
            return where, self.access.on_chip(leaf.target.tensor, where)

        def insert() -> None:
            with self.builder.loop("place", last, "unroll" if last <= UNROLL else "serial") as number:
                place = op("sub", index(last), number)
                where, present = held(place)
                given = combine(worst, held(op("sub", place, index(1)))[1], value)
                self.access.put_on_chip(leaf.target.tensor, where, combine(best, present, given))
            first, present = held(index(0))
            self.access.put_on_chip(leaf.target.tensor, first, combine(best, present, value))

        if region.lane is not None:
            insert()
            return
        threshold = held(index(last))[1]
        with self.builder.when(value > threshold if best == "max" else value < threshold):
            insert()

    def _accumulate(self, leaf: Reduce, region: Region, value: PrimExpr, row: Expr, start: Expr) -> None:
        from tvm.tirx import BufferLoad, Ramp

        partial = self._partials[id(leaf)]
        flat = self.builder.index(op("add", op("mul", row, index(partial.width)), start))
        position = Ramp(flat, 1, region.lane.extent) if region.lane is not None else flat
        present = BufferLoad(partial.array, [position])
        self.builder.store(partial.array, position, self._joined(leaf, present, value))

    def _joined(self, leaf: Reduce, present: PrimExpr, value: PrimExpr) -> PrimExpr:
        """``present ⊕ value``; what an extremum may pass over is never present."""
        if leaf in self.passing:
            return extremum_of_numbers(leaf.combiner, *level(present, value))
        return combine(leaf.combiner, present, value)

    def open_fold(self, nest: Nest, region: Region, width: int) -> None:
        """Before the loop of a reduction along the vector: accumulators for ``width`` lanes, holding the identity."""
        from tvm.tirx import Ramp, const

        leaf = nest.leaf
        assert isinstance(leaf, Reduce)
        dtype = computed(leaf.target.tensor.dtype)
        rows = prod(region.width(a) for a in leaf.target.axes)
        array = self.builder.allocate("lanes", rows * width, dtype)
        self._partials[id(leaf)] = Partial(array, width)
        for start, lanes in self.vectors(rows * width):
            flat = self.builder.index(start)
            neutral = const(identity(leaf.combiner, dtype), dtype)
            self.builder.store(array, Ramp(flat, 1, lanes) if lanes > 1 else flat, neutral)

    def close_fold(self, nest: Nest, region: Region) -> None:
        """After the loop: the lanes' accumulators folded into the target."""
        from tvm.tirx import BufferLoad, Ramp

        leaf = nest.leaf
        assert isinstance(leaf, Reduce)
        partial = self._partials.pop(id(leaf))
        axes = [a for a in leaf.target.axes if region.width(a) > 1]
        for row, inner in self._rows(axes, region):
            base = op("mul", row, index(partial.width))
            full, rest = divmod(partial.width, self.lanes)
            cuts = [(n * self.lanes, self.lanes) for n in range(full)] + [(full * self.lanes, rest)] * bool(rest)
            vectors = []
            for start, lanes in cuts:
                flat = self.builder.index(op("add", base, index(start)))
                vectors.append(BufferLoad(partial.array, [Ramp(flat, 1, lanes) if lanes > 1 else flat]))
            total = fold(self.builder, lambda a, b: self._joined(leaf, a, b), vectors)
            present = self.access.on_chip(leaf.target.tensor, inner)
            self.access.put_on_chip(leaf.target.tensor, inner, self._joined(leaf, present, total))

    def transpose(self, nest: Nest, region: Region) -> None:
        """A value computed along one axis and stored along another, square by square."""
        leaf, lane = nest.leaf, nest.vector
        assert isinstance(leaf, Transpose) and lane is not None
        others = [a for a in leaf.target.axes if a not in (lane, leaf.along) and region.width(a) > 1]
        for _, inner in self._rows(others, region):
            for start, width in self.vectors(inner.width(lane)):
                if width == self.lanes == inner.width(leaf.along):
                    self._square(leaf, inner, lane, start)
                else:
                    self._strip(leaf, inner, lane, start, width)

    def _square(self, leaf: Transpose, region: Region, lane: Axis, start: Expr) -> None:
        from tvm.tirx import BufferLoad

        dtype = "int8" if leaf.target.tensor.dtype == "bool" else computed(leaf.target.tensor.dtype)
        half = self.lanes // 2
        halves = [self.builder.allocate(name, half * self.lanes, dtype) for name in ("upper", "lower")]
        for number, array in enumerate(halves):
            with self.builder.loop("r", half, "unroll") as r:
                first = op("add", start, op("add", r, index(number * half)))
                row = region.narrow(lane, first, 1).along(leaf.along, index(0), self.lanes)
                value = matched(self.translator.value(leaf.value, row), self.lanes)
                self.builder.store(array, self._row(r), value.astype(typed(dtype, value)))
        transpose(self.builder, halves, self.lanes)
        for number, array in enumerate(halves):
            with self.builder.loop("r", half, "unroll") as r:
                column = region.narrow(leaf.along, op("add", r, index(number * half)), 1).along(lane, start, self.lanes)
                self.access.put_on_chip(leaf.target.tensor, column, BufferLoad(array, [self._row(r)]))

    def _row(self, number: Expr) -> PrimExpr:
        from tvm.tirx import Ramp

        return Ramp(self.builder.index(op("mul", number, index(self.lanes))), 1, self.lanes)

    def _strip(self, leaf: Transpose, region: Region, lane: Axis, start: Expr, width: int) -> None:
        """What is left of squares at the edges: rows are stored element by element."""
        with self.builder.loop("r", width, "unroll") as r:
            row = region.narrow(lane, op("add", start, r), 1)
            for first, count in self.vectors(row.width(leaf.along)):
                part = row.along(leaf.along, first, count)
                self.access.put_on_chip(leaf.target.tensor, part, self.translator.value(leaf.value, part))


def combine(combiner: str, left: PrimExpr, right: PrimExpr) -> PrimExpr:
    """``left ⊕ right``."""
    left, right = level(left, right)
    if combiner in ("max", "min"):
        return extremum(combiner, left, right)
    return left + right if combiner == "sum" else left * right
