"""The monoids ⊕ that reduce, the operations ⊗ that correct, and which of them distribute (METHOD §2).

The algebra relies on three laws: ⊕ is a commutative monoid, ⊗ is one too, and
``(a ⊕ b) ⊗ c = (a ⊗ c) ⊕ (b ⊗ c)`` under the side condition of the pair. ``tests/algebra`` proves each row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Value = Any


@dataclass(frozen=True)
class Monoid:
    """A commutative monoid.

    Args:
        name: as in ``Reduction.combiner``.
        symbol: how a person writes it.
        identity: the true one: ``combine(identity, x) == x`` for every x of the domain, infinities included.
        combine: the operation on two values.
        idempotent: whether ``combine(x, x) == x``.
    """

    name: str
    symbol: str
    identity: Value
    combine: Callable[[Value, Value], Value]
    idempotent: bool = False


@dataclass(frozen=True)
class Transform:
    """⊗, what corrections are applied with.

    Args:
        name: an operator of ``expr.OPERATORS``.
        symbol: how a person writes it.
        identity: ``apply(x, identity) == x``.
        apply: the operation on a value and a factor.
        inverse: the factor that undoes one; ``None`` if there is none in general.
        domain: the factors for which the inverse exists.
    """

    name: str
    symbol: str
    identity: float
    apply: Callable[[Value, Value], Value]
    inverse: Callable[[float], float] | None
    domain: str


@dataclass(frozen=True)
class Pair:
    """⊗ distributes over ⊕, provided the condition holds. ``condition`` is ``""``, ``c > 0`` or ``x > 0``."""

    combiner: str
    transform: str
    condition: str = ""

    @property
    def law(self) -> str:
        """The distributive law in words."""
        where = f" for {self.condition}" if self.condition else ""
        return f"{self.transform} distributes over {self.combiner}{where}"


def largest(count: int) -> Monoid:
    """The ``count`` largest of a bag, as a descending tuple; NaN counts as largest, as in ONNX."""

    def key(value: float) -> tuple[bool, float]:
        return math.isnan(value), value

    def combine(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted(a + b, key=key, reverse=True)[:count])

    return Monoid("topk", "top-k", (), combine)


def smallest(count: int) -> Monoid:
    """The ``count`` smallest of a bag, as an ascending tuple; NaN counts as largest, as in ONNX."""

    def key(value: float) -> tuple[bool, float]:
        return math.isnan(value), value

    def combine(a: tuple[float, ...], b: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted(a + b, key=key)[:count])

    return Monoid("bottomk", "bottom-k", (), combine)


def monoid(combiner: str, count: int = 1) -> Monoid:
    """⊕ by name; ``count`` is the length of a list."""
    lists = {"topk": largest, "bottomk": smallest}
    return lists[combiner](count) if combiner in lists else MONOIDS[combiner]


def _first_largest(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
    return max(a, b, key=lambda pair: (pair[0], -pair[1]))


def _first_smallest(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
    return min(a, b)


def _power(value: float, exponent: float) -> float:
    return float(value**exponent)


#: ⊕ by name. argmax and argmin work on (value, index) pairs; the lowest index wins a tie.
MONOIDS: dict[str, Monoid] = {
    monoid.name: monoid
    for monoid in (
        Monoid("sum", "Σ", 0.0, lambda a, b: a + b),
        Monoid("prod", "Π", 1.0, lambda a, b: a * b),
        Monoid("max", "max", -math.inf, max, idempotent=True),
        Monoid("min", "min", math.inf, min, idempotent=True),
        Monoid("argmax", "argmax", (-math.inf, 2**63 - 1), _first_largest, idempotent=True),
        Monoid("argmin", "argmin", (math.inf, 2**63 - 1), _first_smallest, idempotent=True),
        Monoid("or", "∨", False, lambda a, b: a or b, idempotent=True),
        Monoid("and", "∧", True, lambda a, b: a and b, idempotent=True),
    )
}

#: ⊗ by name
TRANSFORMS: dict[str, Transform] = {
    transform.name: transform
    for transform in (
        Transform("mul", "·", 1.0, lambda x, c: x * c, lambda c: 1 / c, "c ≠ 0"),
        Transform("add", "+", 0.0, lambda x, c: x + c, lambda c: -c, "c finite"),
        Transform("pow", "^", 1.0, _power, lambda c: 1 / c, "c ≠ 0, x > 0"),
        Transform("max", "max", -math.inf, max, None, "none"),
        Transform("min", "min", math.inf, min, None, "none"),
        Transform("and", "∧", True, lambda x, c: x and c, None, "none"),
    )
}

#: METHOD §2's table
PAIRS: tuple[Pair, ...] = (
    Pair("sum", "mul"),
    Pair("max", "add"),
    Pair("min", "add"),
    Pair("max", "mul", "c > 0"),
    Pair("min", "mul", "c > 0"),
    Pair("topk", "add"),
    Pair("topk", "mul", "c > 0"),
    Pair("bottomk", "add"),
    Pair("bottomk", "mul", "c > 0"),
    Pair("prod", "pow", "x > 0"),
    Pair("max", "min"),
    Pair("min", "max"),
    Pair("max", "max"),
    Pair("min", "min"),
    Pair("or", "and"),
    Pair("argmax", "add"),
    Pair("argmin", "add"),
)


def pair(combiner: str, transform: str) -> Pair | None:
    """The law for ⊗ = ``transform`` over ⊕ = ``combiner``, if there is one."""
    return next((p for p in PAIRS if (p.combiner, p.transform) == (combiner, transform)), None)
