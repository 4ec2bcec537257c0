"""From a formula back to an expression, written the way it should be computed.

Only corrections, finishes and the further members of a basis are written from formulas; elements keep the
graph's own operators. A product becomes multiplications, then divisions; a sum its positive terms, then the
negative ones, so that ``exp(m - m')`` stays a difference under one ``exp``.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy

from redfuser.algebra.formulas.symbolic import LIMIT, Formula, origin
from redfuser.expr import Const, Expr, cast, number, op

Leaves = Mapping[sympy.Symbol, Expr]

_FUNCTIONS = {
    sympy.log: "log",
    sympy.Abs: "abs",
    **{getattr(sympy, name): name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
}
#: a power up to this is written as a product
_SMALL_POWER = 4


class NotPrintable(Exception):
    """The formula has a part that no operator computes."""


def to_expr(formula: Formula, leaves: Leaves, dtype: str) -> Expr:
    """The formula as an expression of ``dtype``.

    Args:
        formula: any formula over the symbols of ``leaves``.
        leaves: what each symbol stands for; converted to ``dtype``.

    Raises:
        NotPrintable: no operator computes some part of it.
    """
    if isinstance(formula, sympy.Symbol):
        return cast(leaves[formula], dtype)
    if formula.is_Number or formula.is_NumberSymbol:
        return number(float(formula), dtype)
    if isinstance(formula, sympy.Add):
        return _sum(formula, leaves, dtype)
    if isinstance(formula, sympy.Mul | sympy.Pow):
        return times(None, formula, leaves, dtype)
    if isinstance(formula, sympy.exp):
        return _exponential(formula.args[0], leaves, dtype)
    name = _FUNCTIONS.get(type(formula))
    if name is None:
        raise NotPrintable(str(formula))
    return op(name, to_expr(formula.args[0], leaves, dtype))


def times(first: Expr | None, product: Formula, leaves: Leaves, dtype: str) -> Expr:
    """``first · product``, the numerators multiplied on first and the denominators divided out last.

    The quotient of two base points of one atom is taken before it is raised, as in ``s²/s'²``: the power of either
    alone may overflow or vanish.
    """
    numerators: list[Expr] = [] if first is None else [first]
    denominators: list[Expr] = []
    coefficient, factors = product.as_coeff_mul()
    if coefficient.is_negative:
        coefficient, factors = _turn_round(coefficient, factors)
    if coefficient != 1:
        numerators.append(number(float(coefficient), dtype))
    powers = dict(factor.as_base_exp() for factor in factors)
    for base, exponent in powers.items():
        other = _counterpart(base, powers)
        if other is not None:
            if exponent.is_positive:
                quotient = op("div", to_expr(base, leaves, dtype), to_expr(other, leaves, dtype))
                numerators.append(_raised(quotient, exponent, leaves, dtype))
        elif base is sympy.E or not (exponent.is_Number and exponent.is_negative):
            numerators.append(_power(base, exponent, leaves, dtype))
        else:
            denominators.append(_power(base, -exponent, leaves, dtype))
    result = numerators[0] if numerators else number(1.0, dtype)
    for factor in numerators[1:]:
        result = op("mul", result, factor)
    for factor in denominators:
        result = op("div", result, factor)
    return result


def _counterpart(base: Formula, powers: Mapping[Formula, Formula]) -> Formula | None:
    """The other base point of the same atom, where a power of their quotient is a factor."""
    if not isinstance(base, sympy.Symbol) or powers[base] in (1, -1):
        return None
    others = (b for b, exponent in powers.items() if isinstance(b, sympy.Symbol) and exponent == -powers[base])
    return next((other for other in others if origin(other) == base or origin(base) == other), None)


def _turn_round(coefficient: Formula, factors: tuple[Formula, ...]) -> tuple[Formula, tuple[Formula, ...]]:
    """``-(a - b)`` as ``b - a``, where there is a difference to turn round."""
    for place, factor in enumerate(factors):
        if factor.is_Add:
            return -coefficient, (*factors[:place], -factor, *factors[place + 1 :])
    return coefficient, factors


def _exponential(exponent: Formula, leaves: Leaves, dtype: str) -> Expr:
    if not exponent.has(LIMIT):
        return op("exp", to_expr(exponent, leaves, dtype))
    gap = sympy.expand(exponent).coeff(LIMIT)
    upper, lower = (sum(t for t in gap.as_ordered_terms() if t.could_extract_minus_sign() == minus) for minus in (0, 1))
    same = cast(op("eq", to_expr(sympy.S(upper), leaves, dtype), to_expr(-sympy.S(lower), leaves, dtype)), dtype)
    rest = sympy.expand(exponent - gap * LIMIT)
    return same if rest == 0 else op("mul", same, op("exp", to_expr(rest, leaves, dtype)))


def _power(base: Formula, exponent: Formula, leaves: Leaves, dtype: str) -> Expr:
    if base is sympy.E:
        return _exponential(exponent, leaves, dtype)
    if base == 2 and not exponent.is_Number:
        return op("exp2", to_expr(exponent, leaves, dtype))
    return _raised(to_expr(base, leaves, dtype), exponent, leaves, dtype)


def _raised(value: Expr, exponent: Formula, leaves: Leaves, dtype: str) -> Expr:
    if exponent == 1:
        return value
    if exponent == sympy.Rational(1, 2):
        return op("sqrt", value)
    if exponent.is_Integer and 1 < exponent <= _SMALL_POWER:
        result = value
        for _ in range(int(exponent) - 1):
            result = op("mul", result, value)
        return result
    return op("pow", value, to_expr(exponent, leaves, dtype))


def _sum(formula: sympy.Add, leaves: Leaves, dtype: str) -> Expr:
    content, primitive = formula.as_content_primitive()
    if content != 1 and primitive.is_Add:
        # 3(m - m') keeps the difference exact, 3m - 3m' doesn't.
        return op("mul", number(float(content), dtype), to_expr(primitive, leaves, dtype))
    terms = formula.as_ordered_terms()
    positive = [term for term in terms if not term.could_extract_minus_sign()]
    negative = [-term for term in terms if term.could_extract_minus_sign()]
    if positive:
        result = to_expr(positive[0], leaves, dtype)
    else:
        result = op("sub", Const(dtype, 0.0), to_expr(negative.pop(0), leaves, dtype))
    for term in positive[1:]:
        result = op("add", result, to_expr(term, leaves, dtype))
    for term in negative:
        result = op("sub", result, to_expr(term, leaves, dtype))
    return result
