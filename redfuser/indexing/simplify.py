"""Simplification of whole expressions: the indices of their loads, and the conditions that ranges decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from redfuser.expr import INDEX, Const, Expr, Load, Op, index, substitute, transform
from redfuser.extents import least, most, surely_at_most, surely_less
from redfuser.indexing.linear import UNKNOWN, add_forms, linear

E = TypeVar("E", bound=Expr)


def simplify(expr: Expr) -> Expr:
    """Simplify every index inside an expression (load indices, and integer arithmetic at the top)."""

    def rule(node: Expr) -> Expr:
        if isinstance(node, Load):
            return node.rebuild(tuple(linear(i).expr() for i in node.indices))
        if isinstance(node, Op) and node.name in ("eq", "ne", "lt", "le", "gt", "ge") and node.args[0].dtype == INDEX:
            return _decide(node)
        if isinstance(node, Op) and node.name in ("and", "or", "not", "select"):
            return _fold_logic(node)
        return node

    result = transform(expr, rule)
    return linear(result).expr() if result.dtype == INDEX and not isinstance(result, Load) else result


def _decide(node: Op) -> Expr:
    """Settle a comparison of indices whose ranges decide it (padding conditions that never fire, say).

    ``0 < int64(flag)``, which lowering makes of a boolean, is the flag itself.
    """
    zero, flag = node.args
    is_cast = isinstance(flag, Op) and flag.name == "cast"
    if node.name == "lt" and zero == index(0) and is_cast and flag.children[0].dtype == "bool":
        return flag.children[0]
    low, high = add_forms(linear(node.args[0]), linear(node.args[1]), -1).bounds()
    if least(low) <= -UNKNOWN or most(high) >= UNKNOWN:
        return node
    negative, positive = surely_less(high, 0), surely_less(0, low)
    no_more, no_less = surely_at_most(high, 0), surely_at_most(0, low)
    always = {"lt": negative, "le": no_more, "gt": positive, "ge": no_less, "eq": low == high == 0}
    never = {"lt": no_less, "le": positive, "gt": no_more, "ge": negative, "eq": positive or negative}
    if node.name == "ne":
        truth = {True: never["eq"], False: always["eq"]}
    else:
        truth = {True: always[node.name], False: never[node.name]}
    if truth[True] or truth[False]:
        return Const("bool", truth[True])
    return node.rebuild(tuple(linear(a).expr() for a in node.args))


def _fold_logic(node: Op) -> Expr:
    first = node.args[0]
    if node.name == "select" and isinstance(first, Const):
        return node.args[1] if first.value else node.args[2]
    if node.name == "not" and isinstance(first, Const):
        return Const("bool", not first.value)
    if node.name in ("and", "or"):
        for this, other in (node.args, node.args[::-1]):
            if isinstance(this, Const):
                absorbing = bool(this.value) == (node.name == "or")
                return this if absorbing else other
    return node


def replace(expr: Expr, mapping: Mapping[E, Expr]) -> Expr:
    """Substitute axes and simplify."""
    return simplify(substitute(expr, mapping))
