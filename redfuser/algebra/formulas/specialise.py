"""Put values in place of parts of an expression and drop what becomes neutral: ``e / 1`` is ``e``.

Only nodes above a replacement are simplified. Everything else keeps the graph's own operators and
order, so equal sub-expressions of two maps stay equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from redfuser.expr import Const, Expr, Op
from redfuser.expr.evaluate import evaluate

#: operator -> (neutral left operand, neutral right operand); ``None`` where there is none
_NEUTRAL: dict[str, tuple[float | None, float | None]] = {
    "add": (0.0, 0.0),
    "sub": (None, 0.0),
    "mul": (1.0, 1.0),
    "div": (None, 1.0),
    "pow": (None, 1.0),
    "max": (-math.inf, -math.inf),
    "min": (math.inf, math.inf),
}


def specialise(expr: Expr, values: Mapping[Expr, Expr]) -> Expr:
    """``expr`` with each key of ``values`` replaced, outermost first, and neutral operands dropped above them."""
    done: dict[Expr, Expr] = {}

    def visit(node: Expr) -> Expr:
        if node not in done:
            if node in values:
                done[node] = values[node]
            else:
                children = tuple(visit(child) for child in node.children)
                same = all(a is b for a, b in zip(children, node.children, strict=True))
                done[node] = node if same else _tidy(node.rebuild(children))
        return done[node]

    return visit(expr)


def is_constant(expr: Expr, value: float) -> bool:
    """Whether ``expr`` is a literal equal to ``value``."""
    return isinstance(expr, Const) and float(expr.value) == value


def _tidy(node: Expr) -> Expr:
    if not isinstance(node, Op):
        return node
    if all(isinstance(arg, Const) for arg in node.args):
        value = evaluate(node, {}, {}).item()
        return Const(node.dtype, value)
    if node.name == "select" and isinstance(node.args[0], Const):
        return node.args[1] if node.args[0].value else node.args[2]
    left, right = _NEUTRAL.get(node.name, (None, None))
    if left is not None and is_constant(node.args[0], left):
        return node.args[1]
    if right is not None and is_constant(node.args[1], right):
        return node.args[0]
    return node
