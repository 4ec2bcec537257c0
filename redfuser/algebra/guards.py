"""The exporter's NaN guard on softmax probabilities, moved from the element to the row (METHOD §4).

The graph says ``p' = 0 where isnan(p) else p`` with ``p = e / t``. Some ``e/t`` of a row is NaN exactly when ``t`` is:

* a NaN among the e makes t, their sum, NaN (every e is ≥ 0, so infinities can't cancel);
* if t isn't NaN then the row's maximum m is finite or +inf didn't occur, its own element gives exp(0) = 1 and every
  other one at most 1, so 1 ≤ t ≤ L: neither 0/0 nor ∞/∞ can arise.

The proof needs e to be *the* element of t, t to be a sum, and ``e = exp(s - m)`` with ``m = max s`` over the same s.
"""

from __future__ import annotations

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
        quotient = _strip(guarded)
        if not isinstance(quotient, Op) or quotient.name != "div":
            return node
        total = _reduction(quotient.args[1], cascade)
        if total is None:
            return node
        _prove(quotient, total, cascade)
        assert isinstance(node, Op)
        return Op(node.dtype, "select", (Op("bool", "isnan", (quotient.args[1],)), *_ordered(node)))

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
    while isinstance(expr, Op) and expr.name == "cast" and "float" in expr.dtype and "float" in expr.args[0].dtype:
        expr = expr.args[0]
    return expr


def _reduction(expr: Expr, cascade: Cascade) -> Reduction | None:
    """The reduction whose result ``expr`` is."""
    value = _strip(expr)
    return next((r for r in cascade.reductions if isinstance(value, Load) and r.value == value), None)


def _prove(quotient: Op, total: Reduction, cascade: Cascade) -> None:
    element, weight = _strip(quotient.args[0]), _strip(total.map)
    if total.combiner != "sum":
        raise _refusal(f"{total.result.name} is not a sum", quotient)
    if element != weight:
        raise _refusal(f"the numerator is not the element that {total.result.name} sums", quotient)
    if not isinstance(element, Op) or element.name != "exp":
        raise _refusal("the element is not an exponential", quotient)
    difference = _strip(element.args[0])
    if not isinstance(difference, Op) or difference.name != "sub":
        raise _refusal("the exponent does not subtract a maximum", quotient)
    score, maximum = (_strip(arg) for arg in difference.args)
    top = _reduction(maximum, cascade)
    if top is None or top.combiner != "max" or _strip(top.map) != score:
        raise _refusal("the exponent does not subtract the maximum of the very same score", quotient)


def _refusal(why: str, quotient: Op) -> NotFusible:
    return NotFusible("guard-not-proved", f"the guard on NaN can't be moved to the row: {why}", str(quotient))
