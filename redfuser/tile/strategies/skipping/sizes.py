"""A phase that looks at inputs before the rest runs: how large they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from redfuser.expr import INDEX, Axis, Expr, Load, Tensor, axes_of, axis, cast, index, load, number, op
from redfuser.expr.evaluate import numpy_dtype
from redfuser.extents import is_symbolic, most
from redfuser.indexing import linear
from redfuser.tile.ir import Buffer, Fill, Phase, Reduce, Statement, Store, Stream, Tile
from redfuser.tile.strategies.common import whole
from redfuser.tile.strategies.segments import Segments

WORK = "float32"
#: Pieces of an axis that are measured apart, where many points are looked at at a time.
MOST_PIECES = 8
#: Rows that one block measures at once at least: a step for each would be slow to interpret.
ROWS = 32


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
        if is_symbolic(along.extent):
            return Segments.cut(along.extent, self.pieces, tile, "piece").bounds(along.extent)
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
