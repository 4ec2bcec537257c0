"""Splitting a product into the two operands of a matrix product on the tile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redfuser.expr import Axis, Expr, Op, axes_of, op


def split_product(
    value: Expr, target: Sequence[Axis], over: Axis, tile: Callable[[Axis], int]
) -> tuple[Expr, Expr] | None:
    """``value = left · right`` such that ``Σ over value`` is a matrix product over the target's axes.

    Factors are re-associated: what varies along one axis of the target makes the right operand, everything
    else, constants included, the left one.

    Args:
        value: one summand.
        target: axes of the result, the most natural ones for the right operand last.
        over: the axis summed.
        tile: how many points of an axis the tile holds; an axis of one point makes no matrix product.

    Returns:
        The operands, or ``None`` if ``value`` isn't such a product.
    """
    factors, divisors = _factors(value)
    wide = [a for a in target if tile(a) > 1]
    for key in reversed(wide):
        right = [f for f in factors if key in axes_of(f)]
        left = [f for f in factors if key not in axes_of(f)]
        if not left or not right or any(key in axes_of(d) for d in divisors):
            continue
        first = _product(left)
        for divisor in divisors:
            first = op("div", first, divisor)
        second = _product(right)
        if _is_matrix_product(axes_of(first), axes_of(second), wide, over):
            return first, second
    return None


def _is_matrix_product(left: frozenset[Axis], right: frozenset[Axis], wide: Sequence[Axis], over: Axis) -> bool:
    return (
        over in left
        and over in right
        and all(a in left or a in right for a in wide)
        and any(a not in right for a in wide)
        and any(a not in left for a in wide)
    )


def _factors(value: Expr) -> tuple[list[Expr], list[Expr]]:
    """Factors and divisors in order."""
    if isinstance(value, Op) and value.name == "mul":
        (left, under_left), (right, under_right) = map(_factors, value.args)
        return left + right, under_left + under_right
    if isinstance(value, Op) and value.name == "div" and "float" in value.dtype:
        above, under = _factors(value.args[0])
        return above, [*under, value.args[1]]
    return [value], []


def _product(factors: Sequence[Expr]) -> Expr:
    result = factors[0]
    for factor in factors[1:]:
        result = op("mul", result, factor)
    return result
