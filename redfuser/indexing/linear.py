"""Linear forms of index expressions: ``constant + Σ coefficient · atom`` over atoms with known ranges.

Coefficients and constants may be symbolic sizes. What is concluded from ranges then holds whatever the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from redfuser.expr import INDEX, Axis, Const, Expr, Op, Symbol, index, op
from redfuser.extents import (
    Extent,
    Size,
    all_numbers,
    common_divisor,
    divide,
    least,
    most,
    split_multiple,
    surely_at_most,
    surely_less,
)

#: Bounds used where nothing is known of a value (a data-dependent index, say).
UNKNOWN = 1 << 62


@dataclass(frozen=True)
class Linear:
    """``constant + Σ coefficient · atom``; atoms are distinct, coefficients not zero."""

    terms: tuple[tuple[Expr, Extent], ...]
    constant: Extent

    @staticmethod
    def of(terms: Mapping[Expr, Extent], constant: Extent) -> Linear:
        """Drop zero coefficients and order the terms by size, largest first, for a stable text form."""
        kept = [(atom, c) for atom, c in terms.items() if c != 0]
        return Linear(tuple(sorted(kept, key=lambda t: (-_magnitude(t[1]), str(t[0])))), constant)

    def bounds(self) -> tuple[Extent, Extent]:
        """Least and greatest value over the atoms' ranges; of both, that which is true whatever the symbolic sizes."""
        low = high = self.constant
        for atom, c in self.terms:
            a, b = _atom_bounds(atom)
            if least(c) < 0 < most(c):
                return -UNKNOWN, UNKNOWN
            a, b = (a, b) if least(c) >= 0 else (b, a)
            low, high = low + c * a, high + c * b
        return low, high

    def scaled(self, factor: Extent) -> Linear:
        """``factor`` times the form."""
        return Linear.of({atom: c * factor for atom, c in self.terms}, self.constant * factor)

    def expr(self) -> Expr:
        """Back to an expression, positive terms first."""
        result: Expr | None = None
        for atom, c in sorted(self.terms, key=lambda t: most(t[1]) < 0):
            if result is None:
                result = atom if c == 1 else op("mul", atom, index(c))
            elif most(c) < 0:
                result = op("sub", result, atom if c == -1 else op("mul", atom, index(-c)))
            else:
                result = op("add", result, atom if c == 1 else op("mul", atom, index(c)))
        if result is None:
            return index(self.constant)
        if self.constant != 0:
            negative = most(self.constant) < 0
            result = op("sub" if negative else "add", result, index(-self.constant if negative else self.constant))
        return result


def _magnitude(value: Extent) -> int:
    return max(abs(least(value)), abs(most(value)))


def _atom_bounds(atom: Expr) -> tuple[Extent, Extent]:
    if isinstance(atom, Axis):
        return 0, max(atom.extent - 1, 0) if not isinstance(atom.extent, Size) else atom.extent - 1
    if isinstance(atom, Op) and atom.name in ("floordiv", "floormod"):
        divisor = size_in(atom.args[1])
        if divisor is not None and atom.name == "floormod":
            return 0, divisor - 1
        if divisor is not None:
            low, high = linear(atom.args[0]).bounds()
            if all_numbers(low, high, divisor):
                return low // divisor, high // divisor
            if surely_at_most(0, low):
                return 0, _quotient_bound(high, divisor)
    if isinstance(atom, Op) and atom.name in ("min", "max"):
        (low, high), (other_low, other_high) = (linear(argument).bounds() for argument in atom.args)
        if atom.name == "min":
            lowest = min(least(low), least(other_low))
            return _smaller(low, other_low, lowest), _smaller(high, other_high, high)
        highest = max(most(high), most(other_high))
        return _larger(low, other_low, low), _larger(high, other_high, highest)
    return -UNKNOWN, UNKNOWN


def _quotient_bound(high: Extent, divisor: Extent) -> Extent:
    """An upper bound of ``high // divisor`` for a number that isn't negative."""
    whole = divide(high + 1, divisor)
    return whole - 1 if whole is not None else high if divide(high, divisor) is None else high // divisor


def _smaller(a: Extent, b: Extent, unknown: Extent) -> Extent:
    return a if surely_at_most(a, b) else b if surely_at_most(b, a) else unknown


def _larger(a: Extent, b: Extent, unknown: Extent) -> Extent:
    return b if surely_at_most(a, b) else a if surely_at_most(b, a) else unknown


def size_in(expr: Expr) -> Extent | None:
    """The positive number that an expression stands for; None if it isn't one."""
    if isinstance(expr, Const):
        return int(expr.value) if expr.value > 0 else None
    if not isinstance(expr, Symbol | Op):
        return None
    form = linear(expr)
    return form.constant if not form.terms and surely_less(0, form.constant) else None


def linear(expr: Expr) -> Linear:
    """The linear form of an index expression, simplified."""
    if isinstance(expr, Const):
        return Linear((), int(expr.value))
    if isinstance(expr, Symbol):
        return Linear((), expr.size)
    if isinstance(expr, Op):
        if expr.name == "cast" and expr.args[0].dtype in (INDEX, "int32"):
            return linear(expr.args[0])
        if expr.name in ("add", "sub"):
            return add_forms(linear(expr.args[0]), linear(expr.args[1]), 1 if expr.name == "add" else -1)
        if expr.name == "mul":
            a, b = linear(expr.args[0]), linear(expr.args[1])
            if not a.terms or not b.terms:
                scale, form = (a.constant, b) if not a.terms else (b.constant, a)
                return form.scaled(scale)
        if expr.name in ("floordiv", "floormod"):
            divisor = size_in(expr.args[1])
            if divisor is not None:
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
        n = literal_divisor(atom, "floormod")
        if n == 0 or not isinstance(atom, Op):
            continue
        quotient = linear(op("floordiv", atom.args[0], index(n)))
        if len(quotient.terms) == 1 and quotient.constant == 0 and quotient.terms[0][1] == 1:
            other = quotient.terms[0][0]
            if terms.get(other) == c * n and terms.get(atom) == c:
                del terms[other], terms[atom]
                whole = linear(atom.args[0])
                rest = Linear.of(terms, form.constant)
                return add_forms(rest, whole.scaled(c), 1)
    return form


def _divide(form: Linear, divisor: Extent) -> tuple[Linear, Linear]:
    """Split into (exact quotient, remainder form): ``form = divisor · quotient + rest``."""
    quotient: dict[Expr, Extent] = {}
    rest: dict[Expr, Extent] = {}
    for atom, c in form.terms:
        if all_numbers(c, divisor):
            part, left = (c // divisor, 0) if c % divisor == 0 else (0, c)
        else:
            part, left = split_multiple(c, divisor)
        quotient[atom], rest[atom] = part, left
    whole, over = split_multiple(form.constant, divisor)
    return Linear.of(quotient, whole), Linear.of(rest, over)


def _coarsen(rest: Linear, divisor: Extent) -> tuple[Extent, Linear, Linear] | None:
    """``rest = g · high + low`` with ``0 <= low < g`` and g > 1 dividing ``divisor``: low never carries."""
    found = {common_divisor(c, divisor) for _, c in rest.terms} - {1}
    for g in sorted(found, key=lambda g: (_magnitude(g), str(g)), reverse=True):
        high, low = _divide(rest, g)
        bottom, top = low.bounds()
        if surely_at_most(0, bottom) and surely_less(top, g):
            return g, high, low
    return None


def literal_divisor(expr: Expr, name: str) -> Extent:
    """``n`` of ``x // n`` or ``x % n`` by the operator's name; 0 where it isn't of that form."""
    divisor = size_in(expr.args[1]) if isinstance(expr, Op) and expr.name == name else None
    return 0 if divisor is None else divisor


def _only_quotient(low: Extent, high: Extent, divisor: Extent) -> int | None:
    """The quotient where all numbers between two bounds have the same one."""
    if all_numbers(low, high, divisor):
        return low // divisor if low // divisor == high // divisor else None
    return 0 if surely_at_most(0, low) and surely_less(high, divisor) else None


def _floordiv(form: Linear, divisor: Extent) -> Linear:
    if divisor == 1:
        return form
    quotient, rest = _divide(form, divisor)
    only = _only_quotient(*rest.bounds(), divisor)
    if only is not None:
        return Linear(quotient.terms, quotient.constant + only)
    coarse = _coarsen(rest, divisor)
    if coarse:
        g, upper, _ = coarse
        return add_forms(quotient, _floordiv(upper, divisor // g), 1)
    inner = rest.expr()
    inside = literal_divisor(inner, "floordiv")
    if isinstance(inner, Op) and inside != 0:
        return add_forms(quotient, _floordiv(linear(inner.args[0]), divisor * inside), 1)
    return add_forms(quotient, Linear(((op("floordiv", inner, index(divisor)), 1),), 0), 1)


def _floormod(form: Linear, divisor: Extent) -> Linear:
    if divisor == 1:
        return Linear((), 0)
    _, rest = _divide(form, divisor)
    only = _only_quotient(*rest.bounds(), divisor)
    if only is not None:
        return Linear(rest.terms, rest.constant - divisor * only)
    coarse = _coarsen(rest, divisor)
    if coarse:
        g, upper, lower = coarse
        scaled = _floormod(upper, divisor // g)
        return add_forms(scaled.scaled(g), lower, 1)
    inner = rest.expr()
    outer = literal_divisor(inner, "floormod")
    if isinstance(inner, Op) and outer != 0 and divide(outer, divisor) is not None:
        return _floormod(linear(inner.args[0]), divisor)
    return Linear(((op("floormod", inner, index(divisor)), 1),), 0)
