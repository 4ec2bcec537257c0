"""Whether looking at what a mask hides takes less than skipping it saves, where only the call's sizes tell."""

from __future__ import annotations

from collections.abc import Iterator

from redfuser.cascade.model import Cascade
from redfuser.expr import Axis, index, op
from redfuser.expr.binding import dims_in
from redfuser.extents import Dim, Extent, dims_of, is_symbolic, most
from redfuser.tile.ir import Derived
from redfuser.tile.strategies.skipping.hidden import Hidden

#: Rows of a block, about.
BLOCK = 128


def grows_with_rows(cascade: Cascade) -> bool:
    """Whether the shared axis is long only where there are many rows."""
    return set(dims_of([cascade.axis.extent])) <= set(dims_of(row.extent for row in cascade.rows))


def limited_rows(cascade: Cascade, hidden: Hidden) -> Axis | None:
    """The longest row of open size that what positions hide depends on: a decoder's queries."""
    varying = {atom for limit in hidden.limits for atom, _ in limit.position.terms}
    rows = [row for row in cascade.rows if row in varying and is_symbolic(row.extent)]
    return max(rows, key=lambda row: most(row.extent), default=None)


def worth_looking(cascade: Cascade, hidden: Hidden) -> Derived | None:
    """Whether skipping saves what looking takes, where rows may be few before a long axis.

    Every block of rows reads the axis but for what is hidden from it: on average half of the rows' number, and all but
    the width of a window. Whoever looks reads it once.
    """
    rows = limited_rows(cascade, hidden)
    if rows is None or grows_with_rows(cascade):
        return None
    taken = {dim.name for dim in dims_in(cascade)}
    name = next(n for n in ("looks", *(f"looks{k}" for k in range(len(taken)))) if n not in taken)
    blocks = op("floordiv", index(rows.extent + BLOCK - 1), index(BLOCK))
    skipped = op("floordiv", index(rows.extent), index(2))
    for width in _widths(hidden):
        skipped = op("max", skipped, index(cascade.axis.extent - width))
    times = op("floordiv", op("mul", blocks, skipped), op("max", index(cascade.axis.extent), index(1)))
    return Derived(Dim(name, 0, 1), op("min", times, index(1)))


def _widths(hidden: Hidden) -> Iterator[Extent]:
    """How much of the axis each row sees between a lower limit and an upper one."""
    lower, upper = ([limit.position for limit in hidden.limits if limit.upper == up] for up in (False, True))
    yield from (b.constant - a.constant + 1 for a in lower for b in upper if a.terms == b.terms)
