"""Phases that look at inputs before the rest runs: how large they are, and which part of the axis a condition shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from redfuser.evaluate import numpy_dtype
from redfuser.expr import INDEX, Axis, Const, Expr, Load, Tensor, axes_of, axis, cast, index, load, number, op
from redfuser.extents import most
from redfuser.indexing import linear
from redfuser.tile.ir import Buffer, Fill, Map, Phase, Reduce, Statement, Store, Stream, Tile
from redfuser.tile.strategies.common import whole

WORK, POSITION = "float32", "int32"
#: Pieces of an axis that are measured apart, where many points are looked at at a time.
MOST_PIECES = 8
#: Rows that one block measures at once at least: a step for each would be slow to interpret.
ROWS = 32
#: Rows of a table of conditions that are looked at at once then, and columns.
STRIP, COLUMNS = 16, 512


@dataclass(frozen=True)
class Sizes:
    """Of values, for each group of rows: the largest ``Σ over inner of value²``, with NaN handed on.

    Args:
        groups: rows that are judged apart.
        points: looked at at a time, by one block.
    """

    groups: tuple[Axis, ...]
    points: int

    @property
    def pieces(self) -> int:
        """How many blocks share a group's values."""
        return MOST_PIECES if self.points > 1 else 1

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Of what is stored."""
        return (*self.groups, axis("piece", self.pieces))

    def tensor(self, name: str) -> Tensor:
        """What is stored of one value."""
        return Tensor(name, tuple(a.extent for a in self.axes), WORK)

    def read(self, tensor: Tensor) -> Expr:
        """A size that no piece exceeds; NaN if one is."""
        parts: list[Expr] = [load(tensor, *self.groups, index(piece)) for piece in range(self.pieces)]
        return reduce(lambda one, other: op("add", one, other), parts)

    def phase(self, values: Sequence[Value]) -> Phase:
        """Measure values."""
        buffers: list[Buffer] = []
        body: list[Statement] = []
        for value in values:
            total = Buffer(Tensor(f"{value.tensor.name}.total", (1,) * len(self.groups), WORK), self.groups)
            buffers.append(total)
            body += [Fill(total, 0.0), *self._fold(value, total, buffers)]
            body.append(Store(value.tensor, self.axes, self.axes, total.value))
        return Phase(tuple(Tile(a, 1) for a in self.axes), tuple(buffers), tuple(body))

    def _fold(self, value: Value, total: Buffer, buffers: list[Buffer]) -> Sequence[Statement]:
        square = value.square
        folded = sorted(axes_of(value.value) - {*self.groups}, key=lambda a: (most(a.extent), a.name))
        inner = value.inner if len(folded) > 1 or value.required else None
        outer = [a for a in folded if a != inner]
        if not outer:
            outer = [Axis(INDEX, "once", 1)]
        *others, along = outer
        at_once = max(self.points, ROWS)
        tile = min(at_once, most(along.extent)) if inner is not None or self.points > 1 else along.extent
        statements: tuple[Statement, ...] = (Reduce(total, "max", square, along),)
        if inner is not None:
            shape = (*(1 for _ in self.groups), tile)
            row = Buffer(Tensor(f"{value.tensor.name}.row", shape, WORK), (*self.groups, along))
            buffers.append(row)
            statements = (Fill(row, 0.0), Reduce(row, "sum", square, inner), Reduce(total, "max", row.value, along))
        if tile != along.extent:
            statements = (Stream(along, tile, statements, *self._piece(along, tile)),)
        for coordinate in others:
            statements = (Stream(coordinate, 1, statements, *whole(coordinate)),)
        return statements

    def _piece(self, along: Axis, tile: int) -> tuple[Expr, Expr]:
        """The part of an axis that a block looks at, in whole tiles."""
        if self.pieces == 1:
            return whole(along)
        length = -(-along.extent // (tile * self.pieces)) * tile
        start = op("mul", self.axes[-1], index(length))
        stop, end = op("add", start, index(length)), index(along.extent)
        if length * self.pieces == along.extent:
            return start, stop
        return op("min", start, end), op("min", stop, end)


@dataclass(frozen=True)
class Value:
    """Something measured.

    Args:
        tensor: where its size is stored.
        inner: the axis along which squares are added up.
        required: they must be; otherwise that is only quicker.
        upper: only numbers above zero matter.
    """

    tensor: Tensor
    value: Expr
    inner: Axis | None
    required: bool = False
    upper: bool = False

    @property
    def square(self) -> Expr:
        """The element that is added up."""
        wide = self.value if numpy_dtype(self.value.dtype) == numpy_dtype(WORK) else cast(self.value, WORK)
        size = op("max", wide, number(0.0, WORK)) if self.upper else wide
        return op("mul", size, size)


def adjacent_axis(node: Load) -> Axis | None:
    """The axis along which neighbours are neighbours in memory."""
    terms = dict(linear(node.indices[-1]).terms) if node.indices else {}
    return next((atom for atom, step in terms.items() if isinstance(atom, Axis) and step == 1), None)


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
