"""Selections among values of earlier results: made by the shared element alone (METHOD §2).

A strictly increasing function keeps order and ties, so ``topk F(x, D)`` selects what ``topk x`` does wherever
``F(·, D)`` increases, as a softmax does for any maximum and sum. The state then holds elements, needs no correction,
and F is applied once to what was selected. Corrections by + and by a positive factor are special cases.

The order is that of real numbers: where probabilities underflow, a state of elements still tells them apart. A NaN
among the earlier results makes all values NaN, which tie: the lowest positions win.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from redfuser.algebra import names
from redfuser.algebra.budget import NotFusible
from redfuser.algebra.formulas.assumptions import Sign
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Expr, Op, axes_of, index, loads, op, pair, position_of, substitute, value_of
from redfuser.indexing import linear

Signs = Callable[[Expr], Sign]

#: functions that increase strictly on all real numbers
_INCREASING = frozenset({"exp", "exp2", "tanh", "sigmoid", "erf", "atan", "sinh"})
_WIDTHS = {"float16": 16, "bfloat16": 16, "float32": 32, "float64": 64}


def transport(reduction: Reduction, cascade: Cascade, sign: Signs) -> tuple[Expr, Expr]:
    """What the selection is made by, and how its result follows.

    Args:
        reduction: of pairs.
        sign: of expressions over the cascade's values.

    Returns:
        The pairs that the state holds, and the final value from them.

    Raises:
        NotFusible: ``not-increasing`` if the value doesn't increase with an element free of earlier results.
    """
    made = reduction.map
    assert isinstance(made, Op) and made.name == "pair"
    value, position = made.args
    results = {other.result for other in cascade.reductions}
    fixed: list[Expr] = []
    element = value
    while any(node.tensor in results for node in loads(element)):
        element, others = _increasing(element, cascade.axis, sign)
        fixed += others
    state = names.component(reduction, 0)
    chosen = substitute(value, {element: value_of(state, element.dtype)})
    first = substitute(position, {cascade.axis: _winner_of_ties(reduction, position)})
    unknown = reduce(lambda a, b: op("or", a, b), [op("isnan", each) for each in dict.fromkeys(fixed)])
    return pair(element, position), pair(chosen, op("select", unknown, first, position_of(state)))


def _winner_of_ties(reduction: Reduction, position: Expr) -> Expr:
    """The point that each place takes where all values tie: counted from the end that the combiner prefers."""
    ascends = dict(linear(position).terms)[reduction.over] > 0
    if ascends == (reduction.combiner in ("min", "bottomk")):
        return reduction.rank or index(0)
    last = index(reduction.over.extent - 1)
    return op("sub", last, reduction.rank) if reduction.rank else last


def _increasing(value: Expr, along: Axis, sign: Signs) -> tuple[Expr, list[Expr]]:
    """The operand that a value increases with, and the others, which are the same for all elements."""
    varying = [arg for arg in value.children if along in axes_of(arg)]
    fixed = [arg for arg in value.children if along not in axes_of(arg)]
    if isinstance(value, Op) and len(varying) == 1:
        operand, left = varying[0], varying[0] is value.args[0]
        if value.name in _INCREASING or value.name == "add" or (value.name == "sub" and left):
            return operand, fixed
        if value.name == "mul" or (value.name == "div" and left):
            if sign(fixed[0]).is_positive:
                return operand, fixed
        elif value.name == "cast" and _WIDTHS.get(value.dtype, 0) >= _WIDTHS.get(operand.dtype, 128):
            return operand, fixed
    text = "what is selected by isn't an increasing function of one element for all values of the earlier results"
    raise NotFusible("not-increasing", text, str(value))
