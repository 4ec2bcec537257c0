"""Mixed-radix digits of an axis, and the inversion of indices made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from redfuser.expr import Axis, Expr, Op, axis, index, op, walk
from redfuser.extents import Extent, divide, most, surely_at_most
from redfuser.indexing.linear import Linear, add_forms, linear, literal_divisor, size_in


def divisors(exprs: Iterable[Expr], target: Axis) -> set[Extent]:
    """Where ``target`` is cut by ``target // a``, ``target % b`` and ``target // a % b``: the set of strides."""
    cuts: set[Extent] = set()
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Op) and node.name in ("floordiv", "floormod"):
                n, inner = size_in(node.args[1]), node.args[0]
                stride = literal_divisor(inner, "floordiv")
                stride = 1 if stride == 0 else stride
                if n is not None and (inner if stride == 1 else inner.children[0]) == target:
                    cuts |= {stride, stride * n}
    return cuts - {1}


def digits(exprs: Iterable[Expr], target: Axis) -> tuple[Axis, ...]:
    """Split an axis where the expressions cut it; most significant digit first.

    The axis itself is returned alone when nothing cuts it or the cuts don't nest.
    """
    found = divisors(exprs, target) - {target.extent}
    cuts = sorted((c for c in found if not surely_at_most(target.extent, c)), key=lambda c: (most(c), str(c)))
    steps = [1, *cuts, target.extent]
    quotients = [divide(b, a) for a, b in pairwise(steps)]
    if not cuts or any(n is None for n in quotients):
        return (target,)
    extents = [n for n in quotients if n is not None][::-1]
    return tuple(axis(f"{target.name}_{n}", extent) for n, extent in enumerate(extents))


def compose(parts: Sequence[Axis]) -> Expr:
    """The value of an axis from its digits, most significant first."""
    form = Linear((), 0)
    for part in parts:
        form = add_forms(form.scaled(part.extent), linear(part), 1)
    return form.expr()


def invert(indices: Sequence[Expr], sources: Sequence[Axis], shape: Sequence[Extent]) -> dict[Axis, Expr] | None:
    """Solve ``coordinate[k] == indices[k](sources)`` for the sources.

    Args:
        indices: affine in ``sources`` with nested strides, as digits leave them.
        sources: the axes to solve for; all must be determined.
        shape: extents of the coordinates.

    Returns:
        For each source its value in terms of ``coordinate_0, coordinate_1, …`` (see :func:`coordinates`),
        or None where the map isn't a bijection of that form.
    """
    solved: dict[Axis, Expr] = {a: index(0) for a in sources if a.extent == 1}
    for place, (expr, extent) in enumerate(zip(indices, shape, strict=True)):
        form = linear(expr)
        if form.constant != 0 or not all(isinstance(atom, Axis) for atom, _ in form.terms):
            return None
        stride: Extent = 1
        coordinate = coordinates(shape)[place]
        for atom, c in sorted(form.terms, key=lambda t: (most(t[1]), str(t[1]))):
            assert isinstance(atom, Axis)
            if c != stride or atom in solved:
                return None
            digit = op("floormod", op("floordiv", coordinate, index(stride)), index(atom.extent))
            solved[atom] = linear(digit).expr()
            stride = stride * atom.extent
        if stride != extent:
            return None
    return solved if all(a in solved for a in sources) else None


def coordinates(shape: Sequence[Extent]) -> tuple[Axis, ...]:
    """The axes that :func:`invert` expresses its answer in."""
    return tuple(axis(f"coordinate_{k}", extent) for k, extent in enumerate(shape))
