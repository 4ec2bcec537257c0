"""The exporter's NaN guard on softmax probabilities, moved from the element to the row (METHOD §4).

The graph says ``p' = 0 where isnan(p) else p`` with ``p = e / t``, ``e · (1/t)`` or ``exp(s - m - log t)``. Some p of a
row is NaN exactly when ``t`` is:

* a NaN among the e makes t, their sum, NaN (every e is ≥ 0, so infinities can't cancel);
* if t isn't NaN then the row's maximum m is finite or +inf didn't occur, its own element gives exp(0) = 1 and every
  other one at most 1, so 1 ≤ t ≤ L: neither 0/0 nor ∞/∞ can arise, and log t is finite.

The proof needs e to be *the* element of t, t to be a sum, and ``e = exp(s - m)`` with ``m = max s`` over the same s;
sums are compared by their terms, in whatever order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from redfuser.algebra.budget import NotFusible
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Const, Expr, Load, Op, transform


def hoist(expr: Expr, cascade: Cascade) -> Expr:
    """``expr`` with every element-wise NaN guard on a probability turned into a guard on the row's sum.

    Raises:
        NotFusible: ``guard-not-proved`` if a guard on a quotient by an earlier sum lacks a precondition.
    """

    def rule(node: Expr) -> Expr:
        guarded = _guarded(node)
        if guarded is None:
            return node
        quotient = _quotient(guarded, cascade)
        if quotient is None:
            return node
        _prove(quotient, cascade)
        assert isinstance(node, Op)
        return Op(node.dtype, "select", (Op("bool", "isnan", (quotient.divisor,)), *_ordered(node)))

    return transform(expr, rule)


def _guarded(node: Expr) -> Expr | None:
    """p, if ``node`` is p with zero in place of NaN."""
    if not isinstance(node, Op) or node.name != "select":
        return None
    fallback, value = _ordered(node)
    tested = _tested(node.args[0].children[0] if _negated(node) else node.args[0])
    zero = isinstance(fallback, Const) and float(fallback.value) == 0
    return value if zero and tested is not None and _strip(tested) == _strip(value) else None


def _ordered(node: Op) -> tuple[Expr, Expr]:
    """(value where NaN, value elsewhere) of a select on a NaN test."""
    return (node.args[2], node.args[1]) if _negated(node) else (node.args[1], node.args[2])


def _negated(node: Op) -> bool:
    return isinstance(node.args[0], Op) and node.args[0].name == "not"


def _tested(condition: Expr) -> Expr | None:
    """p, if ``condition`` says that p is NaN: ``isnan(p)``, ``p != p``, or a cast of one compared with 0."""
    if not isinstance(condition, Op):
        return None
    name, args = condition.name, condition.args
    if name == "isnan":
        return args[0]
    if name == "ne" and args[0] == args[1]:
        return args[0]
    if name == "cast":
        return _tested(args[0])
    zero = [isinstance(arg, Const) and float(arg.value) == 0 for arg in args]
    if (name in ("lt", "ne") and zero[0]) or (name in ("gt", "ne") and zero[-1]):
        return _tested(args[1] if zero[0] else args[0])
    return None


def _strip(expr: Expr) -> Expr:
    """Without casts between floating-point types, and without factors of one."""
    while isinstance(expr, Op):
        if expr.name == "cast" and "float" in expr.dtype and "float" in expr.args[0].dtype:
            expr = expr.args[0]
        elif expr.name == "mul" and any(_is_number(arg, 1) for arg in expr.args):
            expr = expr.args[1] if _is_number(expr.args[0], 1) else expr.args[0]
        else:
            break
    return expr


def _is_number(expr: Expr, value: float) -> bool:
    return isinstance(expr, Const) and float(expr.value) == value


def _terms(expr: Expr) -> Counter[tuple[int, Expr]]:
    """The terms of a sum with their signs."""
    expr = _strip(expr)
    if isinstance(expr, Op) and expr.name in ("add", "sub"):
        left, right = expr.args
        return _terms(left) + (_terms(right) if expr.name == "add" else _negative(_terms(right)))
    if isinstance(expr, Op) and expr.name == "mul" and any(_is_number(arg, -1) for arg in expr.args):
        return _negative(_terms(expr.args[1] if _is_number(expr.args[0], -1) else expr.args[0]))
    return Counter([(1, expr)])


def _negative(terms: Counter[tuple[int, Expr]]) -> Counter[tuple[int, Expr]]:
    return Counter({(-sign, term): count for (sign, term), count in terms.items()})


@dataclass(frozen=True)
class _Quotient:
    """``whole = numerator / total``; the numerator by the terms of its exponent, or None if it's no exponential."""

    whole: Expr
    exponent: Counter[tuple[int, Expr]] | None
    divisor: Expr
    total: Reduction


def _quotient(expr: Expr, cascade: Cascade) -> _Quotient | None:
    """The quotient by an earlier result that ``expr`` is, however it is written."""
    whole = _strip(expr)
    if not isinstance(whole, Op):
        return None
    if whole.name == "exp":
        exponent = _terms(whole.args[0])
        for sign, term in exponent:
            if sign == -1 and isinstance(term, Op) and term.name == "log":
                total = _reduction(term.args[0], cascade)
                if total is not None:
                    return _Quotient(whole, exponent - Counter([(sign, term)]), term.args[0], total)
    for numerator, divisor in _divisions(whole):
        total = _reduction(divisor, cascade)
        if total is not None:
            return _Quotient(whole, _exponent(numerator), divisor, total)
    return None


def _divisions(whole: Op) -> Iterator[tuple[Expr, Expr]]:
    """(numerator, divisor) of ``a / b`` and of ``a · (1 / b)``."""
    if whole.name == "div":
        yield whole.args[0], whole.args[1]
    if whole.name == "mul":
        for value, inverse in (whole.args, whole.args[::-1]):
            inverse = _strip(inverse)
            if isinstance(inverse, Op) and inverse.name == "div" and _is_number(inverse.args[0], 1):
                yield value, inverse.args[1]


def _exponent(expr: Expr) -> Counter[tuple[int, Expr]] | None:
    value = _strip(expr)
    return _terms(value.args[0]) if isinstance(value, Op) and value.name == "exp" else None


def _reduction(expr: Expr, cascade: Cascade) -> Reduction | None:
    """The reduction whose result ``expr`` is."""
    value = _strip(expr)
    return next((r for r in cascade.reductions if isinstance(value, Load) and r.value == value), None)


def _prove(quotient: _Quotient, cascade: Cascade) -> None:
    total, name = quotient.total, quotient.total.result.name
    if total.combiner != "sum":
        raise _refusal(f"{name} is not a sum", quotient)
    if quotient.exponent is None:
        raise _refusal("the element is not an exponential", quotient)
    if quotient.exponent != _exponent(total.map):
        raise _refusal(f"the numerator is not the element that {name} sums", quotient)
    for sign, term in quotient.exponent:
        top = _reduction(term, cascade) if sign == -1 else None
        score = quotient.exponent - Counter([(sign, term)])
        if top is not None and top.combiner == "max" and _terms(top.map) == score:
            return
    raise _refusal("the exponent does not subtract the maximum of the very same score", quotient)


def _refusal(why: str, quotient: _Quotient) -> NotFusible:
    text = f"the guard on NaN can't be moved to the row: {why}"
    return NotFusible("guard-not-proved", text, str(quotient.whole))
