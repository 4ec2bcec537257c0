"""Where a block's tile lies along each axis: how many points are on chip, and which of them are real."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from redfuser.codegen.gpu.emission.open_sizes import Sizes
from redfuser.codegen.refusal import Refused
from redfuser.expr import Axis, Const, Expr, Op, axes_of
from redfuser.extents import Extent, divide, most
from redfuser.indexing import linear
from redfuser.tile.ir import Contract, Phase, Reduce, Stream
from redfuser.tile.walk import statements

#: What the extents of a matrix product must be multiples of; warps take its rows, or columns, in such pieces.
PRODUCT, COLUMNS = 16, 8


@dataclass(frozen=True)
class Span:
    """One axis on chip.

    Args:
        axis: the axis.
        points: of the tile.
        extent: elements on chip; at least ``points``, padded to what matrix products and reductions take.
        origin: text of the tile's first point; empty where that is 0.
        stop: text of the point after the last real one.
        ragged: whether some elements on chip may lie outside the axis.
    """

    axis: Axis
    points: int
    extent: int
    origin: str
    stop: str
    ragged: bool

    @property
    def wide(self) -> bool:
        """Whether the axis is a dimension of buffers: it has more than one point."""
        return self.extent > 1

    def point(self, variable: str) -> str:
        """Text of the point that a loop variable over the tile stands for."""
        if not self.wide:
            return self.origin or "0"
        return f"{self.origin} + {variable}" if self.origin else variable


def power_of_two(points: int) -> int:
    """The least power of two that isn't smaller."""
    return 1 << max(points - 1, 0).bit_length()


@dataclass
class Geometry:
    """The spans of a phase, and of the streams around the statement being written.

    Args:
        phase: whose grid and statements decide.
        warps: of the block; each takes its own rows of a matrix product.
        by_columns: whether each takes its own columns instead.
        sizes: text of open sizes.
    """

    phase: Phase
    warps: int
    by_columns: bool = False
    sizes: Sizes = field(default_factory=Sizes)
    least: dict[Axis, int] = field(default_factory=dict)
    reduced: set[Axis] = field(default_factory=set)
    streamed: dict[Axis, Span] = field(default_factory=dict)
    grid: dict[Axis, Span] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for statement in statements(self.phase.body):
            if isinstance(statement, Contract):
                wide = [
                    a for a, n in zip(statement.target.axes, statement.target.tensor.shape, strict=True) if most(n) > 1
                ]
                rows, columns = (1, self.warps) if self.by_columns else (self.warps, 1)
                needed = {statement.over: PRODUCT}
                needed |= dict.fromkeys(wide[:1], PRODUCT * rows)
                needed |= dict.fromkeys(wide[1:], max(COLUMNS * columns, PRODUCT))
                self.least |= {axis: max(self.least.get(axis, 0), n) for axis, n in needed.items()}
            elif isinstance(statement, Reduce):
                self.reduced |= {*statement.target.axes, statement.over}

    def extent(self, axis: Axis, points: int) -> int:
        """Elements on chip for a tile of ``points``, or as many as there may be."""
        points = most(points)
        if points == 1:
            return 1
        least = self.least.get(axis, 1)
        if axis in self.reduced or axis not in self.least:
            return max(power_of_two(points), least)
        return -(-points // least) * least

    def tiled(self, axis: Axis, points: int, origin: str, stop: str, exact: bool) -> Span:
        """The span of a tile among several.

        Args:
            exact: whether tiles end where the axis does.

        Raises:
            Refused: a tile that isn't whole on chip would be mixed up with the next one.
        """
        extent = self.extent(axis, points)
        if points < most(axis.extent) and extent != points:
            text = "a tile must have a number of points that matrix products and reductions take"
            raise Refused("tile-size", text, f"{axis.name}:{points}, not {extent}")
        return Span(axis, points, extent, origin, stop, extent != points or not exact)

    def span(self, axis: Axis) -> Span:
        """The span of an axis here: streamed, of the grid, or whole."""
        found = self.streamed.get(axis) or self.grid.get(axis)
        if found is not None:
            return found
        extent = self.extent(axis, axis.extent)
        stop = self.sizes.text(axis.extent)
        return Span(axis, most(axis.extent), extent, "", stop, extent != axis.extent)

    def wide(self, axes: Sequence[Axis]) -> tuple[Span, ...]:
        """Spans of those axes that have more than one point, in order."""
        return tuple(span for span in map(self.span, axes) if span.wide)


def single_tile(stream: Stream) -> bool:
    """Whether a stream runs once over its whole axis."""
    bounds = (stream.start, stream.stop)
    if any(axes_of(bound) for bound in bounds) or not all(isinstance(bound, Const) for bound in bounds):
        return False
    start, stop = (int(bound.value) for bound in bounds if isinstance(bound, Const))
    return (start, stop) == (0, stream.axis.extent) and stream.tile == stream.axis.extent


def aligned(bound: Expr, tile: int, extent: Extent) -> bool:
    """Whether a stream's bound is a multiple of its tile, or the end of its axis, whatever its axes are."""
    if isinstance(bound, Op) and bound.name in ("min", "max", "select"):
        return all(aligned(part, tile, extent) for part in bound.args[bound.name == "select" :])
    form = linear(bound)
    if not form.terms and form.constant == extent:
        return True
    return divide(form.constant, tile) is not None and all(_multiple(atom, c, tile) for atom, c in form.terms)


def _multiple(atom: Expr, coefficient: Extent, tile: int) -> bool:
    inner = isinstance(atom, Op) and atom.name in ("min", "max") and coefficient == 1
    return divide(coefficient, tile) is not None or (inner and all(aligned(part, tile, tile) for part in atom.children))
