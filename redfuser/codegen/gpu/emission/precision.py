"""The type in which a value can be kept without changing it, and the type of a matrix product's operands."""

from __future__ import annotations

from collections.abc import Mapping

from redfuser.expr import Expr, Load, Op, Tensor

HALVES = ("float16", "bfloat16")
#: Types whose values another type holds exactly.
_INSIDE: dict[str, frozenset[str]] = {
    "float16": frozenset({"float8_e4m3fn", "float8_e5m2", "int8", "uint8"}),
    "bfloat16": frozenset({"float8_e4m3fn", "float8_e5m2", "int8", "uint8"}),
    "float32": frozenset({"float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8"}),
    "int32": frozenset({"int8", "uint8"}),
}


def holds(wide: str, narrow: str) -> bool:
    """Whether every value of ``narrow`` is one of ``wide``."""
    return wide == narrow or narrow in _INSIDE.get(wide, ())


def exact_dtype(value: Expr, stored: Mapping[Tensor, str]) -> str:
    """The narrowest type known to hold every value of an expression.

    Args:
        stored: types in which buffers are kept, where narrower than declared.
    """
    if isinstance(value, Load):
        return stored.get(value.tensor, value.dtype)
    if isinstance(value, Op) and value.name == "cast":
        inner = exact_dtype(value.args[0], stored)
        return inner if holds(value.dtype, inner) else value.dtype
    return value.dtype


def common_dtype(left: str, right: str) -> str:
    """The narrowest type that holds both."""
    for dtype in (left, right, "float16", "bfloat16"):
        if holds(dtype, left) and holds(dtype, right):
            return dtype
    return "float32"


def strip_casts(value: Expr) -> Expr:
    """The value below conversions that change nothing."""
    while isinstance(value, Op) and value.name == "cast" and holds(value.dtype, value.args[0].dtype):
        value = value.args[0]
    return value
