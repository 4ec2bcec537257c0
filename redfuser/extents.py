"""Numbers of elements: integers, or polynomials over dimensions that are known on the call only.

A :class:`Size` deliberately has no order and no value: code that needs either asks :func:`least`, :func:`most` or
:func:`surely_less`, and whatever hasn't been taught about symbolic sizes fails instead of computing something wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import product as combinations
from math import gcd
from typing import TYPE_CHECKING, cast


@dataclass(frozen=True)
class Dim:
    """A dimension that is known on the call only: ``low <= dim <= high``; identified by its name, an identifier."""

    name: str
    low: int
    high: int

    def __str__(self) -> str:
        return self.name


Monomial = tuple[Dim, ...]


@dataclass(frozen=True)
class Size:
    """``Σ coefficient · product of dimensions``, never a constant: see :func:`polynomial`.

    Args:
        terms: products, each a sorted tuple with repetitions, and coefficients that aren't zero; sorted.
    """

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Extent) -> Extent:
        total = dict(self.terms)
        for monomial, c in terms_of(other):
            total[monomial] = total.get(monomial, 0) + c
        return polynomial(total)

    def __mul__(self, other: Extent) -> Extent:
        total: dict[Monomial, int] = {}
        for (a, c), (b, d) in combinations(self.terms, terms_of(other)):
            monomial = tuple(sorted((*a, *b), key=_name))
            total[monomial] = total.get(monomial, 0) + c * d
        return polynomial(total)

    def __neg__(self) -> Extent:
        return self * -1

    def __sub__(self, other: Extent) -> Extent:
        return self + -other

    def __rsub__(self, other: int) -> Extent:
        return -self + other

    def __floordiv__(self, other: Extent) -> Extent:
        """The exact quotient.

        Raises:
            ValueError: it is no polynomial.
        """
        result = divide(cast(Extent, self), other)
        if result is None:
            raise ValueError(f"{self} isn't known to be a multiple of {other}")
        return result

    __radd__ = __add__
    __rmul__ = __mul__

    def __str__(self) -> str:
        parts = []
        for monomial, c in self.terms:
            factors = [str(c)] * (c not in (1, -1) or not monomial) + [dim.name for dim in monomial]
            parts.append("-" * (c == -1 and bool(monomial)) + "*".join(factors))
        return " + ".join(parts).replace("+ -", "- ")


#: A number of elements. Checkers of types take it for an integer, as most code does: a :class:`Size` that gets where
#: only numbers make sense fails at run time, and the cascade concerned is left as it was.
if TYPE_CHECKING:
    Extent = int
else:
    Extent = int | Size


def polynomial(terms: Mapping[Monomial, int]) -> Extent:
    """The sum of coefficients times products of dimensions; an integer where no dimension is left."""
    kept = sorted(((m, c) for m, c in terms.items() if c), key=_order)
    if not kept:
        return 0
    return kept[0][1] if kept == [((), kept[0][1])] else cast(Extent, Size(tuple(kept)))


def size_of(dim: Dim) -> Extent:
    """A dimension as a number of elements; an integer where its range is one number."""
    return polynomial({(dim,): 1}) if dim.low < dim.high else dim.low


def is_symbolic(value: Extent) -> bool:
    """Whether a number is known on the call only."""
    return isinstance(value, Size)


def all_numbers(*values: Extent) -> bool:
    """Whether none of them is symbolic."""
    return not any(map(is_symbolic, values))


def dims_of(values: Iterable[Extent]) -> tuple[Dim, ...]:
    """The dimensions that numbers depend on, by name."""
    found = {dim for value in values for monomial, _ in terms_of(value) for dim in monomial}
    return tuple(sorted(found, key=_name))


def least(value: Extent) -> int:
    """A lower bound, reached where each dimension occurs once."""
    return sum(min(_range(m, c)) for m, c in terms_of(value))


def most(value: Extent) -> int:
    """An upper bound, reached where each dimension occurs once."""
    return sum(max(_range(m, c)) for m, c in terms_of(value))


def surely_at_most(a: Extent, b: Extent) -> bool:
    """Whether ``a <= b`` whatever the dimensions; False where that can't be proved."""
    difference = b - a
    if not isinstance(difference, Size):
        return difference >= 0
    if least(difference) >= 0:
        return True
    return all(c >= 0 for _, c in terms_of(_above_least(difference)))


def surely_less(a: Extent, b: Extent) -> bool:
    """Whether ``a < b`` whatever the dimensions; False where that can't be proved."""
    return surely_at_most(a + 1, b)


def larger(a: Extent, b: Extent) -> Extent | None:
    """The larger number whatever the dimensions; None where that can't be told."""
    return b if surely_at_most(a, b) else a if surely_at_most(b, a) else None


def divide(a: Extent, b: Extent) -> Extent | None:
    """The exact quotient; None where it is no polynomial."""
    if not isinstance(a, Size) and not isinstance(b, Size):
        return a // b if b and a % b == 0 else None
    if a == 0:
        return 0
    rest, quotient = a, polynomial({})
    lead, scale = terms_of(b)[0] if b != 0 else ((), 0)
    while rest != 0:
        monomial, c = terms_of(rest)[0]
        factor = _without(monomial, lead)
        if factor is None or not scale or c % scale:
            return None
        step = polynomial({factor: c // scale})
        quotient, rest = quotient + step, rest - step * b
    return quotient


def split_multiple(a: Extent, b: Extent) -> tuple[Extent, Extent]:
    """``a = b · quotient + rest``, term by term: the rest keeps what isn't a multiple."""
    whole = divide(a, b)
    if whole is not None:
        return whole, 0
    if not isinstance(a, Size):
        return (0, a) if isinstance(b, Size) else divmod(a, b)
    quotient, rest = polynomial({}), polynomial({})
    for monomial, c in a.terms:
        part = polynomial({monomial: c})
        found = divide(part, b)
        if found is None:
            rest = rest + part
        else:
            quotient = quotient + found
    return quotient, rest


def common_divisor(a: Extent, b: Extent) -> Extent:
    """A common divisor: the larger ones first that are easily found; 1 at least."""
    if not isinstance(a, Size) and not isinstance(b, Size):
        return gcd(a, b)
    for whole, part in ((a, b), (b, a)):
        if part != 0 and divide(whole, part) is not None:
            return part
    contents = [gcd(*(c for _, c in terms_of(value))) for value in (a, b)]
    shared = reduce(_shared, [m for value in (a, b) for m, _ in terms_of(value)])
    return polynomial({shared: gcd(*contents)})


def bind(value: Extent, sizes: Mapping[str, int]) -> int:
    """The number where dimensions have these sizes."""
    return sum(reduce(lambda total, dim: total * sizes[dim.name], monomial, c) for monomial, c in terms_of(value))


def terms_of(value: Extent) -> tuple[tuple[Monomial, int], ...]:
    """Products of dimensions and their coefficients, the highest degrees first."""
    if isinstance(value, Size):
        return value.terms
    return (((), value),) if value else ()


def _name(dim: Dim) -> str:
    return dim.name


def _order(term: tuple[Monomial, int]) -> tuple[int, list[str]]:
    """Higher degrees first, then by name: leading terms multiply to leading terms."""
    return -len(term[0]), [dim.name for dim in term[0]]


def _range(monomial: Monomial, c: int) -> tuple[int, int]:
    low = high = c
    for dim in monomial:
        low, high = low * dim.low, high * dim.high
    return low, high


def _above_least(value: Size) -> Extent:
    """The same number in terms of how far each dimension lies above its lower bound."""
    total: Extent = 0
    for monomial, c in value.terms:
        part: Extent = c
        for dim in monomial:
            part = part * polynomial({(dim,): 1, (): dim.low})
        total = total + part
    return total


def _without(monomial: Monomial, factor: Monomial) -> Monomial | None:
    left = list(monomial)
    for dim in factor:
        if dim not in left:
            return None
        left.remove(dim)
    return tuple(left)


def _shared(a: Monomial, b: Monomial) -> Monomial:
    left = list(b)
    found = []
    for dim in a:
        if dim in left:
            left.remove(dim)
            found.append(dim)
    return tuple(found)
