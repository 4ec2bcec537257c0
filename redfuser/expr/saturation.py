"""Casts to integers: of numbers that are held within the type before, which quantisation ends with, and of NaN."""

from __future__ import annotations

from typing import NamedTuple

from redfuser.expr import Const, Expr, Op


class Saturation(NamedTuple):
    """``cast(min(max(value, low), high))`` to integers, the bounds constants."""

    value: Expr
    low: Const
    high: Const

    def drops_nan(self, dtype: str) -> bool:
        """Whether a maximum that drops a NaN gives what the cast of one does."""
        return self.low.value == of_nan(dtype)


def of_nan(dtype: str) -> int:
    """What a NaN becomes in an integer type: ONNX leaves it open, and this is what x86 and NumPy make of it.

    Types of less than 32 bits get the low bits of the least int32.
    """
    return -(1 << (int(dtype.removeprefix("int")) - 1)) if dtype in ("int32", "int64") else 0


def truncates(node: Expr) -> bool:
    """Whether a node converts floating point to integers."""
    return isinstance(node, Op) and node.name == "cast" and "int" in node.dtype and "float" in node.args[0].dtype


def saturation(node: Expr) -> Saturation | None:
    """A node as such a cast; None where it isn't one."""
    if not isinstance(node, Op) or not truncates(node):
        return None
    upper = _bounded(node.args[0], "min")
    lower = upper and _bounded(upper[0], "max")
    return Saturation(*lower, upper[1]) if upper is not None and lower is not None else None


def _bounded(node: Expr, name: str) -> tuple[Expr, Const] | None:
    if not isinstance(node, Op) or node.name != name or not isinstance(node.args[1], Const):
        return None
    return node.args[0], node.args[1]
