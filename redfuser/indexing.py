"""Index arithmetic: simplification, digits of an axis, and inversion of reshapes and transposes.

Reshapes, transposes and broadcasts lower to floor division and remainder of affine sums. An index is
kept here as a *linear form* over atoms with known ranges; an axis that is only used through
``axis // a`` and ``axis % b`` is split into mixed-radix *digits*, after which every index is affine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from redfuser.expr import INDEX, Axis, Const, E, Expr, Load, Op, axis, index, op, substitute, transform, walk

#: Bounds used where nothing is known of a value (a data-dependent index, say).
UNKNOWN = 1 << 62


@dataclass(frozen=True)
class Linear:
    """``constant + Σ coefficient · atom``; atoms are distinct, coefficients not zero."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int

    @staticmethod
    def of(terms: Mapping[Expr, int], constant: int) -> Linear:
        """Drop zero coefficients and order the terms by size, largest first, for a stable text form."""
        kept = [(atom, c) for atom, c in terms.items() if c]
        return Linear(tuple(sorted(kept, key=lambda t: (-abs(t[1]), str(t[0])))), constant)

    def bounds(self) -> tuple[int, int]:
        """Least and greatest value over the atoms' ranges."""
        low = high = self.constant
        for atom, c in self.terms:
            a, b = _atom_bounds(atom)
            low += min(c * a, c * b)
            high += max(c * a, c * b)
        return low, high

    def expr(self) -> Expr:
        """Back to an expression, positive terms first."""
        result: Expr | None = None
        for atom, c in sorted(self.terms, key=lambda t: t[1] < 0):
            if result is None:
                result = atom if c == 1 else op("mul", atom, index(c))
            elif c < 0:
                result = op("sub", result, atom if c == -1 else op("mul", atom, index(-c)))
            else:
                result = op("add", result, atom if c == 1 else op("mul", atom, index(c)))
        if result is None:
            return index(self.constant)
        if self.constant:
            name = "add" if self.constant > 0 else "sub"
            result = op(name, result, index(abs(self.constant)))
        return result


def _atom_bounds(atom: Expr) -> tuple[int, int]:
    if isinstance(atom, Axis):
        return 0, max(atom.extent - 1, 0)
    if isinstance(atom, Op) and atom.name in ("floordiv", "floormod") and isinstance(atom.args[1], Const):
        divisor = int(atom.args[1].value)
        low, high = linear(atom.args[0]).bounds()
        if atom.name == "floordiv":
            return low // divisor, high // divisor
        return 0, divisor - 1
    return -UNKNOWN, UNKNOWN


def linear(expr: Expr) -> Linear:
    """The linear form of an index expression, simplified."""
    if isinstance(expr, Const):
        return Linear((), int(expr.value))
    if isinstance(expr, Op):
        if expr.name == "cast" and expr.args[0].dtype in (INDEX, "int32"):
            return linear(expr.args[0])
        if expr.name in ("add", "sub"):
            return _add(linear(expr.args[0]), linear(expr.args[1]), 1 if expr.name == "add" else -1)
        if expr.name == "mul":
            a, b = linear(expr.args[0]), linear(expr.args[1])
            if not a.terms or not b.terms:
                scale, form = (a.constant, b) if not a.terms else (b.constant, a)
                return Linear.of({atom: c * scale for atom, c in form.terms}, form.constant * scale)
        if expr.name in ("floordiv", "floormod") and isinstance(expr.args[1], Const):
            divisor = int(expr.args[1].value)
            if divisor > 0:
                form = linear(expr.args[0])
                return _floordiv(form, divisor) if expr.name == "floordiv" else _floormod(form, divisor)
    if isinstance(expr, Axis) and expr.extent == 1:
        return Linear((), 0)
    return Linear(((expr, 1),), 0)


def _add(a: Linear, b: Linear, sign: int) -> Linear:
    terms = dict(a.terms)
    for atom, c in b.terms:
        terms[atom] = terms.get(atom, 0) + sign * c
    return _recombine(Linear.of(terms, a.constant + sign * b.constant))


def _recombine(form: Linear) -> Linear:
    """``x % n + n · (x // n)`` back to ``x``."""
    terms = dict(form.terms)
    for atom, c in form.terms:
        if not (isinstance(atom, Op) and atom.name == "floormod" and isinstance(atom.args[1], Const)):
            continue
        n = int(atom.args[1].value)
        quotient = linear(op("floordiv", atom.args[0], index(n)))
        if len(quotient.terms) == 1 and not quotient.constant and quotient.terms[0][1] == 1:
            other = quotient.terms[0][0]
            if terms.get(other) == c * n and terms.get(atom) == c:
                del terms[other], terms[atom]
                whole = linear(atom.args[0])
                rest = Linear.of(terms, form.constant)
                scaled = Linear.of({a: k * c for a, k in whole.terms}, whole.constant * c)
                return _add(rest, scaled, 1)
    return form


def _divide(form: Linear, divisor: int) -> tuple[Linear, Linear]:
    """Split into (exact quotient, remainder form): ``form = divisor · quotient + rest``."""
    quotient = {atom: c // divisor for atom, c in form.terms if c % divisor == 0}
    rest = {atom: c for atom, c in form.terms if c % divisor}
    return Linear.of(quotient, form.constant // divisor), Linear.of(rest, form.constant % divisor)


def _coarsen(rest: Linear, divisor: int) -> tuple[int, Linear, Linear] | None:
    """``rest = g · high + low`` with ``0 <= low < g`` and g > 1 dividing ``divisor``: low never carries."""
    for g in sorted({gcd(c, divisor) for _, c in rest.terms} - {1}, reverse=True):
        high, low = _divide(rest, g)
        bottom, top = low.bounds()
        if bottom >= 0 and top < g:
            return g, high, low
    return None


def _literal_divisor(expr: Expr, name: str) -> int:
    """``n`` of ``x // n`` or ``x % n`` by the operator's name; 0 where it isn't of that form."""
    if isinstance(expr, Op) and expr.name == name and isinstance(expr.args[1], Const):
        return int(expr.args[1].value)
    return 0


def _floordiv(form: Linear, divisor: int) -> Linear:
    if divisor == 1:
        return form
    quotient, rest = _divide(form, divisor)
    low, high = rest.bounds()
    if low // divisor == high // divisor:
        return Linear(quotient.terms, quotient.constant + low // divisor)
    coarse = _coarsen(rest, divisor)
    if coarse:
        g, upper, _ = coarse
        return _add(quotient, _floordiv(upper, divisor // g), 1)
    inner = rest.expr()
    inside = _literal_divisor(inner, "floordiv")
    if isinstance(inner, Op) and inside:
        return _add(quotient, _floordiv(linear(inner.args[0]), divisor * inside), 1)
    return _add(quotient, Linear(((op("floordiv", inner, index(divisor)), 1),), 0), 1)


def _floormod(form: Linear, divisor: int) -> Linear:
    if divisor == 1:
        return Linear((), 0)
    _, rest = _divide(form, divisor)
    low, high = rest.bounds()
    if low // divisor == high // divisor:
        return Linear(rest.terms, rest.constant - low // divisor * divisor)
    coarse = _coarsen(rest, divisor)
    if coarse:
        g, upper, lower = coarse
        scaled = _floormod(upper, divisor // g)
        return _add(Linear.of({a: c * g for a, c in scaled.terms}, scaled.constant * g), lower, 1)
    inner = rest.expr()
    outer = _literal_divisor(inner, "floormod")
    if isinstance(inner, Op) and outer and outer % divisor == 0:
        return _floormod(linear(inner.args[0]), divisor)
    return Linear(((op("floormod", inner, index(divisor)), 1),), 0)


def simplify(expr: Expr) -> Expr:
    """Simplify every index inside an expression (load indices, and integer arithmetic at the top)."""

    def rule(node: Expr) -> Expr:
        if isinstance(node, Load):
            return node.rebuild(tuple(linear(i).expr() for i in node.indices))
        if isinstance(node, Op) and node.name in ("eq", "ne", "lt", "le", "gt", "ge") and node.args[0].dtype == INDEX:
            return _decide(node)
        if isinstance(node, Op) and node.name in ("and", "or", "not", "select"):
            return _fold_logic(node)
        return node

    result = transform(expr, rule)
    return linear(result).expr() if result.dtype == INDEX and not isinstance(result, Load) else result


def _decide(node: Op) -> Expr:
    """Settle a comparison of indices whose ranges decide it (padding conditions that never fire, say).

    ``0 < int64(flag)``, which lowering makes of a boolean, is the flag itself.
    """
    zero, flag = node.args
    is_cast = isinstance(flag, Op) and flag.name == "cast"
    if node.name == "lt" and zero == index(0) and is_cast and flag.children[0].dtype == "bool":
        return flag.children[0]
    low, high = _add(linear(node.args[0]), linear(node.args[1]), -1).bounds()
    if low <= -UNKNOWN or high >= UNKNOWN:
        return node
    always = {"lt": high < 0, "le": high <= 0, "gt": low > 0, "ge": low >= 0, "eq": low == high == 0}
    never = {"lt": low >= 0, "le": low > 0, "gt": high <= 0, "ge": high < 0, "eq": low > 0 or high < 0}
    if node.name == "ne":
        truth = {True: never["eq"], False: always["eq"]}
    else:
        truth = {True: always[node.name], False: never[node.name]}
    if truth[True] or truth[False]:
        return Const("bool", truth[True])
    return node.rebuild(tuple(linear(a).expr() for a in node.args))


def _fold_logic(node: Op) -> Expr:
    first = node.args[0]
    if node.name == "select" and isinstance(first, Const):
        return node.args[1] if first.value else node.args[2]
    if node.name == "not" and isinstance(first, Const):
        return Const("bool", not first.value)
    if node.name in ("and", "or"):
        for this, other in (node.args, node.args[::-1]):
            if isinstance(this, Const):
                absorbing = bool(this.value) == (node.name == "or")
                return this if absorbing else other
    return node


def divisors(exprs: Iterable[Expr], target: Axis) -> set[int]:
    """Where ``target`` is cut by ``target // a``, ``target % b`` and ``target // a % b``: the set of strides."""
    cuts: set[int] = set()
    for expr in exprs:
        for node in walk(expr):
            if isinstance(node, Op) and node.name in ("floordiv", "floormod") and isinstance(node.args[1], Const):
                n, inner = int(node.args[1].value), node.args[0]
                stride = _literal_divisor(inner, "floordiv") or 1
                if (inner.children[0] if stride > 1 else inner) == target:
                    cuts |= {stride, stride * n}
    return cuts - {1}


def digits(exprs: Iterable[Expr], target: Axis) -> tuple[Axis, ...]:
    """Split an axis where the expressions cut it; most significant digit first.

    The axis itself is returned alone when nothing cuts it or the cuts don't nest.
    """
    cuts = sorted(c for c in divisors(exprs, target) if c < target.extent)
    steps = [1, *cuts, target.extent]
    if not cuts or any(b % a for a, b in pairwise(steps)):
        return (target,)
    extents = [b // a for a, b in pairwise(steps)][::-1]
    return tuple(axis(f"{target.name}_{n}", extent) for n, extent in enumerate(extents))


def compose(parts: Sequence[Axis]) -> Expr:
    """The value of an axis from its digits, most significant first."""
    form = Linear((), 0)
    for part in parts:
        scaled = Linear.of({a: c * part.extent for a, c in form.terms}, form.constant * part.extent)
        form = _add(scaled, linear(part), 1)
    return form.expr()


def replace(expr: Expr, mapping: Mapping[E, Expr]) -> Expr:
    """Substitute axes and simplify."""
    return simplify(substitute(expr, mapping))


def invert(indices: Sequence[Expr], sources: Sequence[Axis], shape: Sequence[int]) -> dict[Axis, Expr] | None:
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
        if form.constant or not all(isinstance(atom, Axis) for atom, _ in form.terms):
            return None
        stride, coordinate = 1, coordinates(shape)[place]
        for atom, c in sorted(form.terms, key=lambda t: t[1]):
            assert isinstance(atom, Axis)
            if c != stride or atom in solved:
                return None
            digit = op("floormod", op("floordiv", coordinate, index(stride)), index(atom.extent))
            solved[atom] = linear(digit).expr()
            stride *= atom.extent
        if stride != extent:
            return None
    return solved if all(a in solved for a in sources) else None


def coordinates(shape: Sequence[int]) -> tuple[Axis, ...]:
    """The axes that :func:`invert` expresses its answer in."""
    return tuple(axis(f"coordinate_{k}", extent) for k, extent in enumerate(shape))
