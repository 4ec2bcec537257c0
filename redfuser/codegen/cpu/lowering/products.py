"""Contractions as register tiles: a few rows times a few vectors of accumulators, held through the whole sum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.lowering.leaves import Leaves
from redfuser.codegen.cpu.lowering.nests import Nest, Product
from redfuser.codegen.cpu.lowering.operands import Operand
from redfuser.codegen.cpu.lowering.region import Region
from redfuser.codegen.cpu.values.types import computed
from redfuser.codegen.cpu.values.vectors import fold, interleaved, level, shuffle, typed
from redfuser.expr import Axis, Expr, Tensor, index, op

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

#: Independent multiply-adds that must be under way to hide their latency, and at most so many partial sums for it.
IN_FLIGHT, SETS = 8, 4
#: Terms that are summed in one go.
PART = 256


@dataclass(frozen=True)
class Tile:
    """Accumulators of one register tile.

    Args:
        rows: one array for each point of the nest's block axis: ``sets`` times ``width`` elements.
        width: how many points of its vector axis.
        sets: partial sums kept apart, so that enough multiply-adds are independent.
    """

    rows: Sequence[Array]
    width: int
    sets: int


@dataclass(frozen=True)
class Place:
    """One vector of accumulators: where it stands in the problem, and where in its row's array."""

    point: Region
    array: Array
    offset: Expr


class Products:
    """Writes contractions whose loops over rows and vectors are open.

    Args:
        leaves: the writer of everything else; gives values and vectors.
        operands: what contractions read that can be brought closer, by the tensor that they add to.
    """

    def __init__(self, leaves: Leaves, operands: Mapping[Tensor, Sequence[Operand]]) -> None:
        self.operands = operands
        self.builder = leaves.builder
        self.translator = leaves.translator
        self.access = leaves.access
        self.lanes = leaves.lanes
        self.vectors = leaves.vectors

    def write(self, nest: Nest, region: Region) -> None:
        """One register tile: start, sum, finish. Long sums are taken in parts, whose roundings don't add up."""
        leaf = nest.leaf
        assert isinstance(leaf, Product)
        if leaf.dots:
            self._dots(leaf, nest, region)
            return
        tile = self._tile(leaf, nest, region)
        width = region.width(leaf.over)
        if width <= PART:
            self._start(leaf, nest, region, tile, leaf.initial)
            for point, total in self._totals(leaf, nest, region, tile):
                self._finish(leaf, point, total)
            return
        for place in self._places(nest, region, tile):
            initial = self.translator.value(leaf.initial, place.point)
            self.access.put_on_chip(leaf.target.tensor, place.point, initial)
        full, rest = divmod(width, PART)
        with self.builder.loop("part", full) as part:
            self._add_part(leaf, nest, region.narrow(leaf.over, op("mul", part, index(PART)), PART), tile)
        if rest:
            self._add_part(leaf, nest, region.narrow(leaf.over, index(full * PART), rest), tile)
        for place in self._places(nest, region, tile):
            self._finish(leaf, place.point, self.access.on_chip(leaf.target.tensor, place.point))

    def _add_part(self, leaf: Product, nest: Nest, region: Region, tile: Tile) -> None:
        """Add part of the sum to the target."""
        self._start(leaf, nest, region, tile, None)
        for point, total in self._totals(leaf, nest, region, tile):
            present = self.access.on_chip(leaf.target.tensor, point)
            self.access.put_on_chip(leaf.target.tensor, point, present + total)

    def _start(self, leaf: Product, nest: Nest, region: Region, tile: Tile, initial: Expr | None) -> None:
        """Fill the accumulators: the first set from ``initial`` where it is given, all else with zero."""
        for number in range(tile.sets):
            for place in self._places(nest, region, tile, number):
                first = initial if number == 0 else None
                self._put(place, _zero(leaf) if first is None else self.translator.value(first, place.point))

    def _totals(self, leaf: Product, nest: Nest, region: Region, tile: Tile) -> Iterator[tuple[Region, PrimExpr]]:
        """Sum over the region; gives the total at every place, in an open loop over it."""
        self._sum(leaf, nest, region, tile)
        for place in self._places(nest, region, tile):
            total = self._get(place)
            for number in range(1, tile.sets):
                other = op("add", place.offset, index(number * tile.width))
                total = total + self._get(Place(place.point, place.array, other))
            yield place.point, total

    def _finish(self, leaf: Product, point: Region, total: PrimExpr) -> None:
        value = self.translator.value(leaf.finish, point, {leaf.target.value: total})
        self.access.put_on_chip(leaf.target.tensor, point, value)

    def _tile(self, leaf: Product, nest: Nest, region: Region) -> Tile:
        rows = region.width(nest.block) if nest.block is not None else 1
        width = region.width(nest.vector) if nest.vector is not None else 1
        sets = max(min(IN_FLIGHT // (rows * -(-width // self.lanes)), region.width(leaf.over), SETS), 1)
        dtype = computed(leaf.target.tensor.dtype)
        return Tile([self.builder.allocate("sum", sets * width, dtype) for _ in range(rows)], width, sets)

    def _places(self, nest: Nest, region: Region, tile: Tile, number: int = 0) -> Iterator[Place]:
        """Every vector of one of the tile's sets, row by row, in unrolled loops over the row."""
        for r, array in enumerate(tile.rows):
            row = region.narrow(nest.block, index(r), 1) if nest.block is not None else region
            base = index(number * tile.width)
            if nest.vector is None:
                yield Place(row, array, base)
                continue
            for start, width in self.vectors(tile.width):
                yield Place(row.along(nest.vector, start, width), array, op("add", base, start))

    def _position(self, place: Place) -> PrimExpr:
        from tvm.tirx import Ramp

        flat = self.builder.index(place.offset)
        return Ramp(flat, 1, place.point.lane.extent) if place.point.lane is not None else flat

    def _get(self, place: Place) -> PrimExpr:
        from tvm.tirx import BufferLoad

        return BufferLoad(place.array, [self._position(place)])

    def _put(self, place: Place, value: PrimExpr) -> None:
        self.builder.store(place.array, self._position(place), value)

    def _sum(self, leaf: Product, nest: Nest, region: Region, tile: Tile) -> None:
        full, rest = divmod(region.width(leaf.over), tile.sets)
        with self.builder.loop("k", full) as k:
            for number in range(tile.sets if full else 0):
                first = op("add", op("mul", k, index(tile.sets)), index(number))
                self._step(leaf, nest, region.narrow(leaf.over, first, 1), tile, number)
            if tile.sets == 1:
                self._read_ahead(leaf, nest, region, tile, k)
        if rest:
            with self.builder.loop("k", rest) as k:
                first = op("add", index(full * tile.sets), k)
                self._step(leaf, nest, region.narrow(leaf.over, first, 1), tile, 0)

    def _step(self, leaf: Product, nest: Nest, region: Region, tile: Tile, number: int) -> None:
        """One term of the sum for every accumulator of a set."""
        for place in self._places(nest, region, tile, number):
            self._put(place, self._get(place) + self._term(leaf, place.point))

    def _read_ahead(self, leaf: Product, nest: Nest, region: Region, tile: Tile, term: Expr) -> None:
        """Prefetches beside one term of the sum, where there is enough arithmetic to hide them."""
        for operand in self.operands.get(leaf.target.tensor, ()):
            item = operand.ahead(term, nest.block, len(tile.rows), nest.vector)
            if item is not None:
                self.access.prefetch(item, region.narrow(leaf.over, term, 1))

    def _term(self, leaf: Product, point: Region) -> PrimExpr:
        """``left · right`` in the target's type."""
        dtype = computed(leaf.target.tensor.dtype)
        sides = (self.translator.value(side, point) for side in (leaf.left, leaf.right))
        left, right = level(*(side.astype(typed(dtype, side)) for side in sides))
        return left * right

    def _dots(self, leaf: Product, nest: Nest, region: Region) -> None:
        """Dot products along the sum, several at a time; their vectors of partial sums are folded together."""
        lane = nest.vector
        assert lane is not None
        with self.builder.loop("r", region.width(nest.block) if nest.block is not None else 1, "unroll") as r:
            row = region.narrow(nest.block, r, 1) if nest.block is not None else region
            for start, count in self.vectors(row.width(lane)):
                point = row.along(lane, start, count)
                total = self._dot(leaf, row.narrow(lane, start, count), lane)
                total = self.translator.value(leaf.initial, point) + total
                self._finish(leaf, point, self.builder.bind("total", total))

    def _dot(self, leaf: Product, region: Region, lane: Axis) -> PrimExpr:
        from tvm.tirx import BufferLoad, Ramp

        count, over = region.width(lane), leaf.over
        arrays = [self.builder.allocate("dot", self.lanes, leaf.target.tensor.dtype) for _ in range(count)]
        place = Ramp(self.builder.number(0), 1, self.lanes)
        for array in arrays:
            self.builder.store(array, place, _zero(leaf))
        full, rest = divmod(region.width(over), self.lanes)
        with self.builder.loop("k", full) as k:
            first = op("mul", k, index(self.lanes))
            for n, array in enumerate(arrays if full else []):
                vector = region.narrow(lane, index(n), 1).along(over, first, self.lanes)
                self.builder.store(array, place, BufferLoad(array, [place]) + self._term(leaf, vector))
        total = self._folded([BufferLoad(array, [place]) for array in arrays])
        for n in range(rest):
            term = region.narrow(over, index(full * self.lanes + n), 1).along(lane, index(0), count)
            total = total + self._term(leaf, term)
        return total

    def _folded(self, partial: list[PrimExpr]) -> PrimExpr:
        """Lane n holds the sum over all lanes of vector n: as many vectors as lanes are halved step by step."""
        lanes = self.lanes
        if len(partial) != lanes:
            sums = [fold(self.builder, lambda a, b: a + b, [vector]) for vector in partial]
            return shuffle(sums, range(len(sums))) if len(sums) > 1 else sums[0]
        while len(partial) > 1:
            half = len(partial) // 2
            even, odd = interleaved(lanes, half)
            pairs = zip(partial[:half], partial[half:], strict=True)
            partial = [self.builder.bind("half", shuffle(p, even) + shuffle(p, odd)) for p in pairs]
        return partial[0]


def _zero(leaf: Product) -> PrimExpr:
    from tvm.tirx import const

    return const(0, computed(leaf.target.tensor.dtype))
