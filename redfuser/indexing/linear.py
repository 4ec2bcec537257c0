"""Linear forms of index expressions: ``constant + Σ coefficient · atom`` over atoms with known ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

from redfuser.expr import INDEX, Axis, Const, Expr, Op, index, op

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
    if isinstance(atom, Op) and atom.name in ("min", "max"):
        either = min if atom.name == "min" else max
        lows, highs = zip(*(linear(argument).bounds() for argument in atom.args), strict=True)
        return either(lows), either(highs)
    return -UNKNOWN, UNKNOWN


def linear(expr: Expr) -> Linear:
    """The linear form of an index expression, simplified."""
    if isinstance(expr, Const):
        return Linear((), int(expr.value))
    if isinstance(expr, Op):
        if expr.name == "cast" and expr.args[0].dtype in (INDEX, "int32"):
            return linear(expr.args[0])
        if expr.name in ("add", "sub"):
            return add_forms(linear(expr.args[0]), linear(expr.args[1]), 1 if expr.name == "add" else -1)
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


def add_forms(a: Linear, b: Linear, sign: int) -> Linear:
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
                return add_forms(rest, scaled, 1)
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


def literal_divisor(expr: Expr, name: str) -> int:
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
        return add_forms(quotient, _floordiv(upper, divisor // g), 1)
    inner = rest.expr()
    inside = literal_divisor(inner, "floordiv")
    if isinstance(inner, Op) and inside:
        return add_forms(quotient, _floordiv(linear(inner.args[0]), divisor * inside), 1)
    return add_forms(quotient, Linear(((op("floordiv", inner, index(divisor)), 1),), 0), 1)


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
        return add_forms(Linear.of({a: c * g for a, c in scaled.terms}, scaled.constant * g), lower, 1)
    inner = rest.expr()
    outer = literal_divisor(inner, "floormod")
    if isinstance(inner, Op) and outer and outer % divisor == 0:
        return _floormod(linear(inner.args[0]), divisor)
    return Linear(((op("floormod", inner, index(divisor)), 1),), 0)
