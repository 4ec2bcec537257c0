"""What is known about the sign of a value, read off the cascade: a sum of exponentials is positive, an abs-max isn't
negative. Symbols carry these facts into SymPy, so that no identity needs ``force``.

The reading is that of real numbers: ``exp`` is positive even where a float underflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from redfuser.cascade.model import Cascade
from redfuser.expr import COMPARISONS, Axis, Const, Expr, Load, Op, Symbol, walk
from redfuser.extents import least


@dataclass(frozen=True)
class Sign:
    """Which signs a value may have."""

    negative: bool
    zero: bool
    positive: bool

    @property
    def is_positive(self) -> bool:
        """Proven > 0."""
        return not self.negative and not self.zero

    @property
    def is_nonnegative(self) -> bool:
        """Proven ≥ 0."""
        return not self.negative

    def __neg__(self) -> Sign:
        return Sign(self.positive, self.zero, self.negative)

    def __or__(self, other: Sign) -> Sign:
        return Sign(self.negative or other.negative, self.zero or other.zero, self.positive or other.positive)

    def __add__(self, other: Sign) -> Sign:
        cancel = (self.negative and other.positive) or (self.positive and other.negative)
        zero = (self.zero and other.zero) or cancel
        return Sign(self.negative or other.negative, zero, self.positive or other.positive)

    def __mul__(self, other: Sign) -> Sign:
        negative = (self.negative and other.positive) or (self.positive and other.negative)
        positive = (self.positive and other.positive) or (self.negative and other.negative)
        return Sign(negative, self.zero or other.zero, positive)


ANY = Sign(True, True, True)
NONNEGATIVE = Sign(False, True, True)
POSITIVE = Sign(False, False, True)
ZERO = Sign(False, True, False)

#: functions whose value has a known sign wherever it is a real number
_RANGES = {"exp": POSITIVE, "exp2": POSITIVE, "sigmoid": POSITIVE, "rsqrt": POSITIVE, "cosh": POSITIVE}
_ODD = frozenset({"tanh", "sinh", "erf", "asin", "atan"})
_ROUNDING = frozenset({"floor", "ceil", "round", "trunc"})


def signs(cascade: Cascade) -> Callable[[Expr], Sign]:
    """A function from an expression over the cascade's values to its sign. Results of reductions follow their maps."""
    known: dict[Expr, Sign] = {}

    def sign(expr: Expr) -> Sign:
        for node in walk(expr):
            if node not in known:
                known[node] = _sign(node, [known[child] for child in node.children])
        return known[expr]

    for reduction in (*cascade.producers, *cascade.reductions):
        known[reduction.value] = _of_reduction(reduction.combiner, sign(reduction.map))
    return sign


def _of_reduction(combiner: str, element: Sign) -> Sign:
    if combiner == "sum":
        return element + element
    if combiner == "prod":
        return element * element | element
    return element


def _sign(node: Expr, args: list[Sign]) -> Sign:
    if isinstance(node, Const):
        value = float(node.value)
        return ANY if math.isnan(value) else Sign(value < 0, value == 0, value > 0)
    if isinstance(node, Symbol) and least(node.size) > 0:
        return POSITIVE
    if isinstance(node, Axis | Symbol) or node.dtype == "bool" or node.dtype.startswith("uint"):
        return NONNEGATIVE
    if isinstance(node, Load):
        return ANY
    assert isinstance(node, Op)
    return _of_operator(node, args)


def _of_operator(node: Op, args: list[Sign]) -> Sign:
    name = node.name
    if name in _RANGES:
        return _RANGES[name]
    if name in COMPARISONS:
        return NONNEGATIVE
    if name == "add":
        return args[0] + args[1]
    if name == "sub":
        return args[0] + -args[1]
    if name in ("mul", "div"):
        same = node.args[0] == node.args[1]
        product = args[0] * (args[1] if name == "mul" else Sign(args[1].negative, False, args[1].positive))
        return Sign(False, product.zero and name == "mul", True) if same else product
    if name in ("max", "min"):
        return _largest(args[0], args[1]) if name == "max" else -_largest(-args[0], -args[1])
    if name == "select":
        return args[1] | args[2]
    if name == "pow":
        return _of_power(node.args[1], args[0])
    if name == "abs":
        return Sign(False, args[0].zero, args[0].negative or args[0].positive)
    if name == "sqrt":
        return Sign(False, args[0].zero or args[0].negative, True)
    if name in _ODD:
        return args[0]
    if name in _ROUNDING or name == "cast":
        floats = name == "cast" and "float" in node.dtype
        return args[0] if floats else Sign(args[0].negative, True, args[0].positive)
    return ANY


def _largest(a: Sign, b: Sign) -> Sign:
    zero = (a.zero and (b.zero or b.negative)) or (b.zero and (a.zero or a.negative))
    positive = a.positive or b.positive
    return Sign(a.negative and b.negative, zero, positive)


def _of_power(exponent: Expr, base: Sign) -> Sign:
    if base.is_positive:
        return POSITIVE
    even = isinstance(exponent, Const) and float(exponent.value) % 2 == 0
    return NONNEGATIVE if even or base.is_nonnegative else ANY
