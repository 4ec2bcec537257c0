"""Which values of an expression are used more than once in its code, and so get a name."""

from __future__ import annotations

from collections import Counter

from redfuser.expr import Expr, Load, Op
from redfuser.expr.saturation import truncates
from redfuser.tile.sharing import operands

#: comparison -> the one that holds exactly where it doesn't, NaN aside
COMPLEMENT = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def uses_of(expr: Expr) -> Counter[Expr]:
    """How often each value is used, index arithmetic aside."""
    uses: Counter[Expr] = Counter()
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        uses.update(operands(node))
        uses.update(operand for operand in _repeated(node) if isinstance(operand, Op))
        stack.extend(operands(node))
    return uses


def _repeated(node: Expr) -> tuple[Expr, ...]:
    """Operands that the code of an operator has more than once: that of nested ones would grow by a factor each."""
    if not isinstance(node, Op):
        return ()
    condition = node.args[0]
    if node.name == "not":
        return condition.args if isinstance(condition, Op) and condition.name in COMPLEMENT else ()
    narrow = node.name == "cast" and (node.dtype in ("bool", "bfloat16") or node.dtype.startswith("float8"))
    return (
        node.args
        if narrow or truncates(node) or node.name in ("max", "min", "ne", "floordiv", "floormod", "isinf")
        else ()
    )


def takes_work(node: Expr) -> bool:
    """Whether a value is worth a name: constants and coordinates are at hand, predicates are cheap."""
    return isinstance(node, Op | Load) and node.dtype != "bool"
