"""Casts of numbers that are held within an integer type before, which quantisation ends with."""

from __future__ import annotations

from typing import NamedTuple

from redfuser.expr import Const, Expr, Op


class Saturation(NamedTuple):
    """``cast(min(max(value, low), high))``, where ``low`` is the least number of the integer type.

    A NaN becomes ``low``, as that cast of a NaN does: a maximum that drops a NaN serves as well as one that keeps it.
    """

    value: Expr
    low: Const
    high: Const


def lowest(dtype: str) -> int:
    """What a NaN becomes in an integer type (bool is none): its least number, as in ONNX Runtime's QuantizeLinear."""
    return 0 if dtype.startswith("uint") else -(1 << (int(dtype.removeprefix("int")) - 1))


def truncates(node: Expr) -> bool:
    """Whether a node converts floating point to integers."""
    return isinstance(node, Op) and node.name == "cast" and "int" in node.dtype and "float" in node.args[0].dtype


def saturation(node: Expr) -> Saturation | None:
    """A node as such a cast; None where it isn't one."""
    if not isinstance(node, Op) or not truncates(node):
        return None
    upper = _bounded(node.args[0], "min")
    lower = upper and _bounded(upper[0], "max")
    if upper is None or lower is None or lower[1].value != lowest(node.dtype):
        return None
    return Saturation(lower[0], lower[1], upper[1])


def _bounded(node: Expr, name: str) -> tuple[Expr, Const] | None:
    if not isinstance(node, Op) or node.name != name or not isinstance(node.args[1], Const):
        return None
    return node.args[0], node.args[1]
