"""How far rounding against a running scale can be from rounding against the final one (METHOD §3).

While that scale never exceeds the final one, as a running maximum doesn't, a rounded element and its exact form lie
within one rounding step at the final scale of each other: half a step for each of two roundings to nearest, and both
on the same side of the unrounded value for the others.
"""

from __future__ import annotations

import ml_dtypes

from redfuser.algebra.budget import NotFusible
from redfuser.algebra.proofs.rounding import clipped, rounds
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Expr, Op, cast, loads, number, op


def rounding_error(reduction: Reduction, cascade: Cascade) -> Expr | None:
    """What one rounding step changes in an element of ``reduction``; ``None`` if it rounds nothing by a scale.

    Raises:
        NotFusible: ``rounding-not-bounded`` where a rounded value goes through an operator that isn't linear in it.
    """
    results = frozenset(item.result for item in cascade.reductions)

    def error(node: Expr) -> Expr | None:
        if not isinstance(node, Op) or not any(load.tensor in results for load in loads(node)):
            return None
        if rounds(node):
            inner = error(node.args[0])
            return _step(node) if inner is None else inner if "int" in node.dtype else op("add", inner, _step(node))
        variable = clipped(node)
        if variable is not None:
            return error(variable)
        return _through(node, [error(arg) for arg in node.args])

    return error(reduction.map)


def _through(node: Op, errors: list[Expr | None]) -> Expr | None:
    """The error of ``node`` from those of its operands."""
    found = [error for error in errors if error is not None]
    if not found:
        return None
    name, args = node.name, node.args
    if name == "cast":
        return cast(found[0], node.dtype)
    if name in ("add", "sub"):
        return op("add", *found) if len(found) == 2 else found[0]
    if name == "mul" and len(found) == 1:
        other = args[0] if errors[0] is None else args[1]
        return op("abs", other) if found[0] == number(1.0, node.dtype) else op("mul", found[0], op("abs", other))
    if name == "div" and errors[1] is None:
        return op("div", found[0], op("abs", args[1]))
    text = "no bound is known for the error of rounding against a running scale"
    raise NotFusible("rounding-not-bounded", text, str(node))


def _step(node: Op) -> Expr:
    """The distance between neighbours where ``node`` rounds, in the type that is rounded."""
    value = node.args[0]
    if not node.dtype.startswith("float8"):
        return number(1.0, value.dtype)
    kind = ml_dtypes.finfo(node.dtype)
    relative = op("mul", op("abs", value), number(float(kind.eps), value.dtype))
    return op("max", relative, number(float(kind.smallest_subnormal), value.dtype))
