"""Ranges of floating-point expressions: what a value can be at most and at least, where it can't be NaN."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from redfuser.expr import Axis, Const, Expr, Load, Op, Symbol
from redfuser.extents import least, most

#: Largest finite number of each type that values are computed in.
LARGEST = {
    "float16": 65504.0,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
    "float32": (2 - 2.0**-23) * 2.0**127,
    "float64": math.inf,
}
#: Below this a value may round to zero; float32 has nothing but zero below the other, however it was computed.
TINY, NOTHING_BELOW = 1e-30, 2.0**-160


@dataclass(frozen=True)
class Interval:
    """Every number from ``low`` to ``high``, infinities included where they are an end; never NaN."""

    low: float
    high: float

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high

    @property
    def unbounded(self) -> bool:
        """Whether an infinity is among its numbers."""
        return math.isinf(self.low) or math.isinf(self.high)

    def join(self, other: Interval) -> Interval:
        """The numbers of both, and those between."""
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def times(self, count: int) -> Interval:
        """The sum of ``count`` of its numbers, with room for rounding."""
        return Interval(min(2 * count * self.low, self.low, 0.0), max(2 * count * self.high, self.high, 0.0))


Known = Callable[[Load], Interval | None]


def interval_of(expr: Expr, known: Known) -> Interval | None:
    """The numbers that an expression may give; None if NaN could be among them, or nothing is known.

    Args:
        known: the range of each loaded value.
    """
    if isinstance(expr, Const):
        number = float(expr.value)
        return None if math.isnan(number) else Interval(number, number)
    if isinstance(expr, Axis):
        return Interval(0.0, float(max(most(expr.extent) - 1, 0)))
    if isinstance(expr, Symbol):
        return Interval(float(least(expr.size)), float(most(expr.size)))
    if isinstance(expr, Load):
        return known(expr)
    assert isinstance(expr, Op)
    if expr.name == "select":
        return _select(expr, known)
    if expr.name == "cast" and expr.args[0].dtype == "bool":
        return Interval(0.0, 1.0)
    arguments = [interval_of(argument, known) for argument in expr.args]
    present = [argument for argument in arguments if argument is not None]
    rule = _RULES.get(expr.name)
    if rule is None or len(present) < len(arguments) or expr.dtype not in LARGEST:
        return None
    result = rule(*present)
    if result is not None and expr.dtype == "float32" and max(-result.low, result.high) < NOTHING_BELOW:
        return Interval(0.0, 0.0)
    return None if result is None else _rounded(result, LARGEST[expr.dtype])


def _select(expr: Op, known: Known) -> Interval | None:
    condition, then, otherwise = expr.args
    decided = truth(condition, known)
    if decided is not None:
        return interval_of(then if decided else otherwise, known)
    sides = interval_of(then, known), interval_of(otherwise, known)
    return None if sides[0] is None or sides[1] is None else sides[0].join(sides[1])


def truth(condition: Expr, known: Known) -> bool | None:
    """Whether a condition holds; None if that isn't known."""
    if isinstance(condition, Const):
        return bool(condition.value)
    if not isinstance(condition, Op):
        return None
    if condition.name == "isnan":
        return None if interval_of(condition.args[0], known) is None else False
    if condition.name not in ("and", "or", "not"):
        return None
    sides = [truth(argument, known) for argument in condition.args]
    if condition.name == "not":
        return None if sides[0] is None else not sides[0]
    decisive = condition.name == "or"
    if decisive in sides:
        return decisive
    return None if None in sides else not decisive


def _rounded(value: Interval, largest: float) -> Interval:
    """What a range may become in a type: what exceeds it an infinity or not, the smallest numbers zero or not."""
    low = -math.inf if value.low < -largest else largest if largest < value.low < math.inf else value.low
    high = math.inf if value.high > largest else -largest if -math.inf < value.high < -largest else value.high
    return Interval(0.0 if 0 < low < TINY else low, 0.0 if -TINY < high < 0 else high)


def _add(a: Interval, b: Interval) -> Interval | None:
    opposite = (a.high == math.inf and b.low == -math.inf) or (a.low == -math.inf and b.high == math.inf)
    if opposite:
        return None
    return Interval(a.low + b.low, a.high + b.high)


def _sub(a: Interval, b: Interval) -> Interval | None:
    return _add(a, Interval(-b.high, -b.low))


def _mul(a: Interval, b: Interval) -> Interval | None:
    if (0.0 in a and b.unbounded) or (0.0 in b and a.unbounded):
        return None
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(corners), max(corners))


def _div(a: Interval, b: Interval) -> Interval | None:
    if 0.0 in b or (a.unbounded and b.unbounded):
        return None
    corners = [x / y for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(corners), max(corners))


def _abs(a: Interval) -> Interval:
    ends = abs(a.low), abs(a.high)
    return Interval(0.0 if 0.0 in a else min(ends), max(ends))


def _exponential(base: float) -> Callable[[Interval], Interval]:
    def one(x: float) -> float:
        try:
            return float(base**x)
        except OverflowError:
            return math.inf

    return lambda a: Interval(one(a.low), one(a.high))


def _within(low: float, high: float) -> Callable[[Interval], Interval]:
    return lambda _: Interval(low, high)


_RULES: Mapping[str, Callable[..., Interval | None]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "max": lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high)),
    "min": lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high)),
    "abs": _abs,
    "cast": lambda a: a,
    "exp": _exponential(math.e),
    "exp2": _exponential(2.0),
    "tanh": _within(-1.0, 1.0),
    "erf": _within(-1.0, 1.0),
    "sigmoid": _within(0.0, 1.0),
}
