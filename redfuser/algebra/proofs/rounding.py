"""Rounding against a running scale: the class ``reordered-rounding``, which ``--numerics relaxed`` allows (METHOD §3).

``Σ round(x/s)·w`` with s from the row's abs-max doesn't close, since what is rounded depends on the final s. Read
without its roundings and clips the map is of rank 1 in s. In the relaxed form every element is rounded against the
scale of the elements seen so far, and the state is re-based from scale to scale.
"""

from __future__ import annotations

from dataclasses import replace

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.expr import Const, Expr, Op, transform

EXACT, REORDERED = "exact", "reordered-rounding"


def rounds(node: Expr) -> bool:
    """Whether ``node`` rounds a float to an integer or to a float of 8 bits."""
    if not isinstance(node, Op):
        return False
    if node.name in ("round", "floor", "ceil", "trunc"):
        return True
    narrow = "int" in node.dtype or node.dtype.startswith("float8")
    return node.name == "cast" and narrow and "float" in node.args[0].dtype


def clipped(node: Expr) -> Expr | None:
    """What ``node`` is but for values out of a range, NaN among them, in whose place it has a constant."""
    if not isinstance(node, Op) or node.name not in ("max", "min", "select"):
        return None
    variable = [arg for arg in node.args[-2:] if not isinstance(arg, Const)]
    if len(variable) != 1:
        return None
    within = node.name != "select" or _only_of(_unclipped(variable[0]), node.args[0])
    return variable[0] if within else None


def _unclipped(value: Expr) -> Expr:
    inner = clipped(value)
    return value if inner is None else _unclipped(inner)


def _only_of(value: Expr, condition: Expr) -> bool:
    """Whether ``condition`` compares nothing but ``value`` with constants."""
    if condition == value or isinstance(condition, Const):
        return True
    inner = clipped(condition)
    if inner is not None:
        return _only_of(value, inner)
    return isinstance(condition, Op) and all(_only_of(value, arg) for arg in condition.args)


def unrounded(cascade: Cascade, derivation: Derivation) -> tuple[Cascade, Derivation]:
    """Both with the roundings taken out: they must agree exactly. Clips stay: they mustn't act on a scaled row."""

    def strip(expr: Expr) -> Expr:
        return transform(expr, lambda node: node.children[0] if rounds(node) else node)

    reductions = tuple(replace(item, map=strip(item.map)) for item in cascade.reductions)
    recurrences = tuple(
        replace(item, state=tuple(replace(part, element=strip(part.element)) for part in item.state))
        for item in derivation.recurrences
    )
    return replace(cascade, reductions=reductions), replace(derivation, recurrences=recurrences)
