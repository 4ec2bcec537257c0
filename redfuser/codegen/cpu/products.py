"""Contractions as register tiles: a few rows times a few vectors of accumulators, held through the whole sum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.leaves import Leaves
from redfuser.codegen.cpu.nests import Nest, Product
from redfuser.codegen.cpu.region import Region
from redfuser.codegen.cpu.vectors import fold, level, shuffle, typed
from redfuser.expr import Axis, Expr, index, op

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

#: Independent multiply-adds that must be under way to hide their latency, and at most so many partial sums for it.
IN_FLIGHT, SETS = 8, 4


@dataclass(frozen=True)
class Tile:
    """Accumulators of one register tile.

    Args:
        array: flat; ``sets`` copies of rows of ``width`` elements.
        rows: how many points of the nest's block axis.
        width: how many points of its vector axis.
        sets: partial sums kept apart, so that enough multiply-adds are independent.
    """

    array: Array
    rows: int
    width: int
    sets: int


class Products:
    """Writes contractions whose loops over rows and vectors are open.

    Args:
        leaves: the writer of everything else; gives values and vectors.
    """

    def __init__(self, leaves: Leaves) -> None:
        self.builder = leaves.builder
        self.translator = leaves.translator
        self.access = leaves.access
        self.lanes = leaves.lanes
        self.vectors = leaves.vectors

    def write(self, nest: Nest, region: Region) -> None:
        """One register tile: start, sum, finish."""
        leaf = nest.leaf
        assert isinstance(leaf, Product)
        if leaf.dots:
            self._dots(leaf, nest, region)
            return
        tile = self._tile(leaf, nest, region)
        for point, offset in self._points(nest, region, tile):
            self._put(tile, offset, point, self.translator.value(leaf.initial, point))
            for number in range(1, tile.sets):
                self._put(tile, offset, point, _zero(leaf), number)
        self._sum(leaf, nest, region, tile)
        for point, offset in self._points(nest, region, tile):
            total = self._get(tile, offset, point)
            for number in range(1, tile.sets):
                total = total + self._get(tile, offset, point, number)
            self._finish(leaf, point, total)

    def _finish(self, leaf: Product, point: Region, total: PrimExpr) -> None:
        value = self.translator.value(leaf.finish, point, {leaf.target.value: total})
        self.access.put_on_chip(leaf.target.tensor, point, value)

    def _tile(self, leaf: Product, nest: Nest, region: Region) -> Tile:
        rows = region.width(nest.block) if nest.block is not None else 1
        width = region.width(nest.vector) if nest.vector is not None else 1
        sets = max(min(IN_FLIGHT // (rows * -(-width // self.lanes)), region.width(leaf.over), SETS), 1)
        return Tile(self.builder.allocate("sum", sets * rows * width, leaf.target.tensor.dtype), rows, width, sets)

    def _points(self, nest: Nest, region: Region, tile: Tile) -> Iterator[tuple[Region, Expr]]:
        """Every vector of the tile, in unrolled loops: its region, and its place among the accumulators."""
        with self.builder.loop("r", tile.rows, "unroll") as r:
            row = region.narrow(nest.block, r, 1) if nest.block is not None else region
            base = op("mul", r, index(tile.width))
            if nest.vector is None:
                yield row, base
                return
            for start, width in self.vectors(tile.width):
                yield row.along(nest.vector, start, width), op("add", base, start)

    def _place(self, tile: Tile, offset: Expr, point: Region, number: int) -> PrimExpr:
        from tvm.tirx import Ramp

        flat = self.builder.index(op("add", offset, index(number * tile.rows * tile.width)))
        return Ramp(flat, 1, point.lane.extent) if point.lane is not None else flat

    def _get(self, tile: Tile, offset: Expr, point: Region, number: int = 0) -> PrimExpr:
        from tvm.tirx import BufferLoad

        return BufferLoad(tile.array, [self._place(tile, offset, point, number)])

    def _put(self, tile: Tile, offset: Expr, point: Region, value: PrimExpr, number: int = 0) -> None:
        self.builder.store(tile.array, self._place(tile, offset, point, number), value)

    def _sum(self, leaf: Product, nest: Nest, region: Region, tile: Tile) -> None:
        full, rest = divmod(region.width(leaf.over), tile.sets)
        with self.builder.loop("k", full) as k:
            for number in range(tile.sets if full else 0):
                first = op("add", op("mul", k, index(tile.sets)), index(number))
                self._step(leaf, nest, region.narrow(leaf.over, first, 1), tile, number)
        if rest:
            with self.builder.loop("k", rest) as k:
                first = op("add", index(full * tile.sets), k)
                self._step(leaf, nest, region.narrow(leaf.over, first, 1), tile, 0)

    def _step(self, leaf: Product, nest: Nest, region: Region, tile: Tile, number: int) -> None:
        """One term of the sum for every accumulator."""
        for point, offset in self._points(nest, region, tile):
            total = self._get(tile, offset, point, number)
            self._put(tile, offset, point, total + self._term(leaf, point), number)

    def _term(self, leaf: Product, point: Region) -> PrimExpr:
        """``left · right`` in the target's type."""
        dtype = leaf.target.tensor.dtype
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
        array = self.builder.allocate("dots", count * self.lanes, leaf.target.tensor.dtype)
        places = [Ramp(self.builder.index(index(n * self.lanes)), 1, self.lanes) for n in range(count)]
        for place in places:
            self.builder.store(array, place, _zero(leaf))
        full, rest = divmod(region.width(over), self.lanes)
        with self.builder.loop("k", full) as k:
            first = op("mul", k, index(self.lanes))
            for n, place in enumerate(places if full else []):
                vector = region.narrow(lane, index(n), 1).along(over, first, self.lanes)
                self.builder.store(array, place, BufferLoad(array, [place]) + self._term(leaf, vector))
        total = self._folded([BufferLoad(array, [place]) for place in places])
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
        distance = lanes // 2
        while distance:
            low = [c if not c & distance else lanes + c - distance for c in range(lanes)]
            high = [c + distance if not c & distance else lanes + c for c in range(lanes)]
            pairs = [(partial[n], partial[n + distance]) for n in range(distance)]
            partial = [self.builder.bind("half", shuffle(pair, low) + shuffle(pair, high)) for pair in pairs]
            distance //= 2
        return partial[0]


def _zero(leaf: Product) -> PrimExpr:
    from tvm.tirx import const

    return const(0, leaf.target.tensor.dtype)
