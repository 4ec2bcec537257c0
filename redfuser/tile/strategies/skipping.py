"""Streams that pass over what a mask hides, and the phase that sees whether they may."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.evaluate import numpy_dtype
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, cast, index, load, number, op
from redfuser.indexing import Linear, linear
from redfuser.tile.ir import Buffer, Fill, Phase, Reduce, Schedule, Statement, Store, Stream, Tile
from redfuser.tile.strategies.common import whole
from redfuser.tile.strategies.hidden import MODERATE, NOTHING, Hidden, find_hidden
from redfuser.tile.strategies.intervals import Interval

#: Name of the schedule's option that asks for it.
SKIP_HIDDEN = "skip-hidden"

Bounds = tuple[Expr, Expr]


@dataclass(frozen=True)
class Skipping:
    """How one program skips.

    Args:
        hidden: what may be skipped.
        axis: the shared axis.
        grid: of the phase that streams.
        magnitude: for each group of rows, the sum of what must be moderate; None where nothing must be.
    """

    hidden: Hidden
    axis: Axis
    grid: tuple[Tile, ...]
    magnitude: Load | None

    def narrow(self, bounds: Bounds, tile: int) -> Bounds:
        """Bounds of a stream without what is hidden from every row of the block, in whole tiles."""
        if not self.hidden.limits:
            return bounds
        first, last = bounds
        start, stop = first, last
        for limit in self.hidden.limits:
            edge = self._extreme(limit.position, limit.upper)
            if limit.upper:
                stop = op("min", stop, _whole_tiles(op("add", edge, index(tile)), tile))
            else:
                start = op("min", op("max", start, _whole_tiles(edge, tile)), last)
        return self._if_moderate(start, first), self._if_moderate(op("max", stop, start), last)

    def _if_moderate(self, narrowed: Expr, bound: Expr) -> Expr:
        if self.magnitude is None or narrowed == bound:
            return narrowed
        moderate = op("le", self.magnitude, number(MODERATE, self.magnitude.dtype))
        return op("select", moderate, narrowed, bound)

    def _extreme(self, position: Linear, greatest: bool) -> Expr:
        """The greatest or least value over the block's rows; a grid axis stands for the block's first point."""
        sizes = {tile.axis: tile.size for tile in self.grid}
        terms: dict[Expr, int] = {}
        constant = position.constant
        for atom, step in position.terms:
            assert isinstance(atom, Axis)
            if atom in sizes:
                terms[atom] = step
            if (step > 0) == greatest:
                constant += step * (sizes.get(atom, atom.extent) - 1)
        return Linear.of(terms, constant).expr()

    def look(self) -> tuple[Phase, ...]:
        """The phase that adds up magnitudes, if any must be known."""
        if self.magnitude is None:
            return ()
        groups = tuple(i for i in self.magnitude.indices if isinstance(i, Axis))
        total = Buffer(Tensor("magnitude", (1,) * len(groups), self.magnitude.dtype), groups)
        body: list[Statement] = [Fill(total, 0.0)]
        for node, wanted in self.hidden.asked.items():
            body += _add_up(total, node, wanted)
        body.append(Store(self.magnitude.tensor, groups, groups, total.value))
        return (Phase(tuple(Tile(group, 1) for group in groups), (total,), tuple(body)),)

    @property
    def workspaces(self) -> tuple[Tensor, ...]:
        """What the phases hand over."""
        return () if self.magnitude is None else (self.magnitude.tensor,)


def plan_skipping(cascade: Cascade, derivation: Derivation, schedule: Schedule, grid: Sequence[Tile]) -> Skipping:
    """Skipping for a program with this schedule and grid: of nothing where nothing is hidden or it isn't asked for."""
    hidden = find_hidden(cascade, derivation) if dict(schedule.options).get(SKIP_HIDDEN) else NOTHING
    sizes = {tile.axis: tile.size for tile in grid}
    groups = groups_of(cascade, hidden)
    if any(sizes.get(group) != 1 for group in groups):
        hidden = NOTHING
    tensor = Tensor("magnitudes", tuple(group.extent for group in groups), "float32")
    return Skipping(hidden, cascade.axis, tuple(grid), load(tensor, *groups) if hidden.asked else None)


def groups_of(cascade: Cascade, hidden: Hidden) -> tuple[Axis, ...]:
    """Rows that are judged apart: those that what is looked at along the shared axis has."""
    along = [axes_of(node) for node in hidden.asked if cascade.axis in axes_of(node)]
    return tuple(row for row in cascade.rows if any(row in axes for axes in along))


def _whole_tiles(position: Expr, tile: int) -> Expr:
    """Rounded down to a multiple of the tile."""
    return op("mul", op("floordiv", position, index(tile)), index(tile))


def _add_up(total: Buffer, node: Load, wanted: Interval) -> Sequence[Statement]:
    """Add the magnitudes of a tensor's values, or how far they are above zero if only that matters."""
    dtype = total.tensor.dtype
    value = node if numpy_dtype(node.dtype) == numpy_dtype(dtype) else cast(node, dtype)
    size = op("abs", value) if wanted.low > -MODERATE * 2 else op("max", value, number(0.0, dtype))
    folded = sorted(axes_of(node) - set(total.axes), key=lambda a: (_adjacent(node, a), a.name))
    if not folded:
        folded = [Axis("int64", "once", 1)]
    *outer, inner = folded
    statements: tuple[Statement, ...] = (Reduce(total, "sum", size, inner),)
    for coordinate in reversed(outer):
        start, stop = whole(coordinate)
        statements = (Stream(coordinate, 1, statements, start, stop),)
    return statements


def _adjacent(node: Load, coordinate: Axis) -> bool:
    """Whether neighbours along an axis are neighbours in memory."""
    return bool(node.indices) and dict(linear(node.indices[-1]).terms).get(coordinate) == 1
