"""Streams that pass over what a mask hides, and the phases that see whether and where they may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.expr import INDEX, Axis, Expr, Tensor, axes_of, axis, cast, index, load, loads, number, op, substitute
from redfuser.extents import size_of
from redfuser.indexing import Linear
from redfuser.tile.ir import Derived, Phase, Schedule, Store, Tile
from redfuser.tile.strategies.skipping.hidden import NOTHING, Hidden, find_hidden
from redfuser.tile.strategies.skipping.shown import POSITION, Shown
from redfuser.tile.strategies.skipping.sizes import WORK, Sizes, Value, adjacent_axis
from redfuser.tile.strategies.skipping.worth import worth_looking

#: Name of the schedule's option that asks for it: how many points the phases that look take at a time.
SKIP_HIDDEN = "skip-hidden"
#: How near to its bound a sum of products may come, for the rounding of what is measured.
ROOM = 0.9

Bounds = tuple[Expr, Expr]


@dataclass(frozen=True)
class Skipping:
    """How one program skips.

    Args:
        hidden: what may be skipped.
        grid: of the phase that streams.
        sizes: how values are measured.
        values: those measured.
        bounds: values whose sizes' product must not exceed a number, one or two of them.
        shown: what is measured of conditions in memory.
        worth: 1 where the call's sizes make looking worth while, 0 where they don't; None where that is decided.
    """

    hidden: Hidden
    grid: tuple[Tile, ...]
    sizes: Sizes
    values: tuple[Value, ...] = ()
    bounds: tuple[tuple[tuple[Tensor, ...], float], ...] = ()
    shown: tuple[Shown, ...] = ()
    worth: Derived | None = None

    def narrow(self, bounds: Bounds, tile: int) -> Narrowed:
        """A stream without what is hidden from every row of the block, in whole tiles."""
        first, last = bounds
        start, stop = first, last
        for edge, upper in self._edges():
            if upper:
                stop = op("min", stop, _whole_tiles(op("add", edge, index(tile)), tile))
            else:
                start = op("min", op("max", start, _whole_tiles(edge, tile)), last)
        if stop != last:
            stop = self._if_moderate(op("max", stop, start), last)
        narrowed = Narrowed((self._if_moderate(start, first), stop), self.look(), self.workspaces)
        if self.sizes.points > 1:
            narrowed = narrowed.decided(self.grid, tile, last)
        return narrowed if self.worth is None else narrowed.where(self.worth, bounds)

    def _edges(self) -> Iterator[tuple[Expr, bool]]:
        """First (False) and last (True) elements that the block's rows see."""
        for limit in self.hidden.limits:
            yield self._extreme(limit.position, limit.upper), limit.upper
        for shown in self.shown:
            first, last = shown.range()
            yield first, False
            yield last, True

    def _if_moderate(self, narrowed: Expr, bound: Expr) -> Expr:
        if not self.bounds or narrowed == bound:
            return narrowed
        tests = []
        for tensors, most in self.bounds:
            size = reduce(lambda one, other: op("mul", one, other), map(self.sizes.read, tensors))
            tests.append(op("le", size, number(most, WORK)))
        return op("select", reduce(lambda one, other: op("and", one, other), tests), narrowed, bound)

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
        """The phases that measure what must be known."""
        measured = (self.sizes.phase(self.values),) if self.values else ()
        return (*(shown.phase() for shown in self.shown), *measured)

    @property
    def workspaces(self) -> tuple[Tensor, ...]:
        """What the phases hand over."""
        return (*(t for s in self.shown for t in (s.first, s.last)), *(value.tensor for value in self.values))


@dataclass(frozen=True)
class Narrowed:
    """A stream's bounds, and the phases before it that they need.

    Args:
        bounds: of the stream.
        phases: in order.
        workspaces: what they hand over.
        derived: sizes that they follow from.
    """

    bounds: Bounds
    phases: tuple[Phase, ...]
    workspaces: tuple[Tensor, ...]
    derived: tuple[Derived, ...] = ()

    def where(self, worth: Derived, bounds: Bounds) -> Narrowed:
        """The same where looking is worth while, and otherwise these bounds and no phase: its grid is empty."""
        if not self.phases:
            return self
        times = size_of(worth.dim)
        looks = op("lt", index(0), index(times))
        chosen = [n if n == b else op("select", looks, n, b) for n, b in zip(self.bounds, bounds, strict=True)]
        once = Tile(axis(worth.dim.name, times), 1)
        phases = tuple(replace(phase, grid=(once, *phase.grid)) for phase in self.phases)
        return Narrowed((chosen[0], chosen[1]), phases, self.workspaces, (worth,))

    def decided(self, grid: Sequence[Tile], tile: int, last: Expr) -> Narrowed:
        """The same with bounds that a phase of their own works out, as numbers of tiles, where they read memory.

        Each block of the stream then reads two numbers, however much was measured.
        """
        if not any(map(loads, self.bounds)):
            return self
        sizes = {t.axis: t for t in grid}
        used = sorted(frozenset().union(*map(axes_of, self.bounds)), key=lambda a: a.name)
        blocks = {a: axis(f"{a.name}.block", sizes[a].count) for a in used if a in sizes and sizes[a].size > 1}
        axes = tuple(blocks.get(a, a) for a in used)
        firsts = {a: op("mul", block, index(sizes[a].size)) for a, block in blocks.items()}
        where = [_block_number(a, sizes[a].size) if a in blocks else a for a in used]
        bounds, stores = list(self.bounds), []
        for place, (name, bound) in enumerate(zip(("first", "last"), self.bounds, strict=True)):
            if not loads(bound):
                continue
            tensor = Tensor(f"tile.{name}", tuple(a.extent for a in axes), POSITION)
            rounded_up = op("add", substitute(bound, firsts), index(tile - 1))
            number_ = op("floordiv", rounded_up, index(tile))
            stores.append(Store(tensor, axes, axes, cast(number_, POSITION)))
            read = op("mul", cast(load(tensor, *where), INDEX), index(tile))
            # Said again of what is in memory: inside the axis.
            bounds[place] = op("max", op("min", read, last), index(0))
        decide = Phase(tuple(Tile(a, 1) for a in axes), (), tuple(stores))
        return Narrowed((bounds[0], bounds[1]), (*self.phases, decide), (*self.workspaces, *(s.tensor for s in stores)))


def _block_number(coordinate: Axis, size: int) -> Expr:
    """Of the block that begins at a point, or of a last one that is moved back to end with its axis."""
    return op("floordiv", op("add", coordinate, index(size - 1)), index(size))


def plan_skipping(cascade: Cascade, derivation: Derivation, schedule: Schedule, grid: Sequence[Tile]) -> Skipping:
    """Skipping for a program with this schedule and grid: of nothing where nothing is hidden or it isn't asked for."""
    points = dict(schedule.options).get(SKIP_HIDDEN, 0)
    hidden = find_hidden(cascade, derivation) if points else NOTHING
    tiles = {tile.axis: tile for tile in grid}
    groups = groups_of(cascade, hidden)
    sizes = Sizes(groups, points)
    if any(group not in tiles or tiles[group].size != 1 for group in groups):
        return Skipping(NOTHING, tuple(grid), sizes)
    shown = []
    for place, condition in enumerate(hidden.conditions):
        rows = [row for row in cascade.rows if row in axes_of(condition)]
        if all(row in tiles for row in rows) and sum(tiles[row].size > 1 for row in rows) <= 1:
            name = f"seen{place}" if place else "seen"
            shown.append(Shown(condition, cascade.axis, tuple(tiles[row] for row in rows), points, name))
    if not shown and not hidden.limits:
        return Skipping(NOTHING, tuple(grid), sizes)
    values, bounds = _measured(hidden, sizes)
    worth = worth_looking(cascade, hidden) if points > 1 else None
    return Skipping(hidden, tuple(grid), sizes, tuple(values), tuple(bounds), tuple(shown), worth)


def groups_of(cascade: Cascade, hidden: Hidden) -> tuple[Axis, ...]:
    """Rows that are judged apart: those that what is looked at along the shared axis has."""
    values: list[Expr] = [*hidden.needs.values, *(e for p in hidden.needs.products for e in (p.left, p.right))]
    along = [axes_of(value) for value in values if cascade.axis in axes_of(value)]
    return tuple(row for row in cascade.rows if any(row in axes for axes in along))


def _measured(hidden: Hidden, sizes: Sizes) -> tuple[list[Value], list[tuple[tuple[Tensor, ...], float]]]:
    """What is measured, and what it must not exceed."""
    values: list[Value] = []
    bounds: list[tuple[tuple[Tensor, ...], float]] = []
    for node, wanted in hidden.needs.values.items():
        upper = wanted.low == -float("inf")
        tensor = sizes.tensor(f"size{len(values)}")
        values.append(Value(tensor, node, adjacent_axis(node), upper=upper))
        bounds.append(((tensor,), wanted.high**2))
    for product, most in hidden.needs.products.items():
        sides = []
        for side in (product.left, product.right):
            sides.append(sizes.tensor(f"size{len(values)}"))
            values.append(Value(sides[-1], side, product.over, required=True))
        bounds.append((tuple(sides), min((ROOM * most) ** 2, 2.0**126)))
    return values, bounds


def _whole_tiles(position: Expr, tile: int) -> Expr:
    """Rounded down to a multiple of the tile."""
    return op("mul", op("floordiv", position, index(tile)), index(tile))
