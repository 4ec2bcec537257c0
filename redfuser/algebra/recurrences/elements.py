"""How an element is written: in the accumulator's type, and as a plain product where that makes it a matrix product."""

from __future__ import annotations

from redfuser.expr import Axis, Expr, Op, axes_of, cast, op


def arrange(element: Expr, own: frozenset[Axis], dtype: str) -> Expr:
    """``element`` in ``dtype``; a product as (factors without ``own`` axes) · (factors with them).

    Products are only regrouped when factors of both sorts occur. A product of narrow floats is taken in the
    wide type.
    """
    factors = _factors(element)
    left = [(factor, divides) for factor, divides in factors if not axes_of(factor) & own]
    right = [(factor, divides) for factor, divides in factors if axes_of(factor) & own]
    if not any(not divides for _, divides in left) or not any(not divides for _, divides in right):
        return cast(element, dtype)
    return op("mul", cast(_product(left), dtype), cast(_product(right), dtype))


def _factors(element: Expr) -> list[tuple[Expr, bool]]:
    """The factors of a product or quotient, and whether each divides."""
    if isinstance(element, Op) and element.name in ("mul", "div") and "float" in element.dtype:
        first, second = (_factors(arg) for arg in element.args)
        return first + [(factor, divides != (element.name == "div")) for factor, divides in second]
    return [(element, False)]


def _product(factors: list[tuple[Expr, bool]]) -> Expr:
    numerators = [factor for factor, divides in factors if not divides]
    result = numerators[0]
    for factor in numerators[1:]:
        result = op("mul", result, factor)
    for factor, divides in factors:
        if divides:
            result = op("div", result, factor)
    return result
