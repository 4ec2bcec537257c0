"""A phase that looks at conditions before the rest runs: which part of the axis they show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

from redfuser.expr import INDEX, Axis, Const, Expr, Tensor, axis, cast, index, load, op
from redfuser.indexing import linear
from redfuser.tile.ir import Buffer, Fill, Map, Phase, Reduce, Statement, Store, Stream, Tile
from redfuser.tile.strategies.common import whole

POSITION = "int32"
#: Rows of a table of conditions that are looked at at once, where a block looks at many points, and columns.
STRIP, COLUMNS = 16, 512


@dataclass(frozen=True)
class Shown:
    """Which part of the shared axis a condition shows to each block of rows: from the first element seen to the last.

    A row that sees none counts as one that sees all.

    Args:
        condition: holds where an element is seen.
        axis: the shared axis.
        rows: tiles of the rows that the condition depends on; at most one of them has several points.
        points: of :class:`Sizes`.
        name: prefix of the tensors' names.
    """

    condition: Expr
    axis: Axis
    rows: tuple[Tile, ...]
    points: int
    name: str

    @property
    def block(self) -> Tile | None:
        """The tile of several rows."""
        return next((tile for tile in self.rows if tile.size > 1), None)

    @property
    def strip(self) -> int:
        """Rows measured together."""
        size = self.block.size if self.block is not None else 1
        return STRIP if self.points > 1 and size % STRIP == 0 else size

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Of what is stored."""
        single = tuple(tile.axis for tile in self.rows if tile.size == 1)
        if self.block is None:
            return single
        return (*single, axis("strip", -(-self.block.axis.extent // self.strip)))

    @property
    def first(self) -> Tensor:
        """The first element that a strip's rows see."""
        return Tensor(f"{self.name}.first", tuple(a.extent for a in self.axes), POSITION)

    @property
    def last(self) -> Tensor:
        """The last one."""
        return Tensor(f"{self.name}.last", tuple(a.extent for a in self.axes), POSITION)

    def range(self) -> tuple[Expr, Expr]:
        """First and last element seen by the block at a grid's point."""
        single = tuple(tile.axis for tile in self.rows if tile.size == 1)
        where: list[tuple[Expr, ...]] = [single]
        if self.block is not None:
            size = self.block.size
            # A last block that is moved back to end with its axis is still the last one.
            number_ = op("floordiv", op("add", self.block.axis, index(size - 1)), index(size))
            strips = size // self.strip
            if strips > 1:
                last = index(self.axes[-1].extent - 1)
                every = [linear(op("add", op("mul", number_, index(strips)), index(n))).expr() for n in range(strips)]
                where = [(*single, op("min", strip, last)) for strip in every]
            else:
                where = [(*single, number_)]
        firsts: list[Expr] = [cast(load(self.first, *place), INDEX) for place in where]
        lasts: list[Expr] = [cast(load(self.last, *place), INDEX) for place in where]
        return reduce(lambda a, b: op("min", a, b), firsts), reduce(lambda a, b: op("max", a, b), lasts)

    def phase(self) -> Phase:
        """Measure."""
        first, last = self._buffer("block_first"), self._buffer("block_last")
        row = None if self.block is None else self.block.axis
        rows = () if row is None else (row,)
        own_first, own_last = self._buffer("row_first", *rows), self._buffer("row_last", *rows)
        seen = self._buffer("positions", *rows, self.axis)
        kept = (seen,) if self.points > 1 else ()
        end = self.axis.extent
        once = row if row is not None else Axis(INDEX, "once", 1)
        none = op("lt", own_last.value, Const(POSITION, 0))
        inner: tuple[Statement, ...] = (
            Fill(own_first, end),
            Fill(own_last, -1),
            *self._scan(own_first, own_last, seen),
            Map(own_first, op("select", none, Const(POSITION, 0), own_first.value)),
            Map(own_last, op("select", none, Const(POSITION, end - 1), own_last.value)),
            Reduce(first, "min", own_first.value, once),
            Reduce(last, "max", own_last.value, once),
        )
        if row is not None:
            start = op("mul", self.axes[-1], index(self.strip))
            stop = op("min", op("add", start, index(self.strip)), index(row.extent))
            inner = (Stream(row, self._rows_at_once, inner, start, stop),)
        stores = (
            Store(self.first, self.axes, self.axes, first.value),
            Store(self.last, self.axes, self.axes, last.value),
        )
        body = (Fill(first, end), Fill(last, -1), *inner, *stores)
        return Phase(tuple(Tile(a, 1) for a in self.axes), (first, last, own_first, own_last, *kept), body)

    @property
    def _rows_at_once(self) -> int:
        return self.strip if self.points > 1 else 1

    @property
    def _columns(self) -> int:
        """Elements of the axis that are looked at together."""
        return min(self.axis.extent, COLUMNS)

    def _scan(self, first: Buffer, last: Buffer, seen: Buffer) -> Iterator[Statement]:
        """Fold positions seen; a block that looks at many together keeps them on chip, read once."""
        position = cast(self.axis, POSITION)
        end, before = Const(POSITION, self.axis.extent), Const(POSITION, -1)
        if self.points == 1:
            yield Reduce(first, "min", op("select", self.condition, position, end), self.axis)
            yield Reduce(last, "max", op("select", self.condition, position, before), self.axis)
            return
        unseen = op("lt", seen.value, Const(POSITION, 0))
        body = (
            Map(seen, op("select", self.condition, position, before)),
            Reduce(last, "max", seen.value, self.axis),
            Reduce(first, "min", op("select", unseen, end, seen.value), self.axis),
        )
        if self._columns == self.axis.extent:
            yield from body
        else:
            yield Stream(self.axis, self._columns, body, *whole(self.axis))

    def _buffer(self, name: str, *more: Axis) -> Buffer:
        tiles = {self.axis: self._columns}
        shape = (*(1 for _ in self.axes), *(tiles.get(a, self._rows_at_once) for a in more))
        return Buffer(Tensor(f"{self.name}.{name}", shape, POSITION), (*self.axes, *more))
