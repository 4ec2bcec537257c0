"""Expressions by what they say, with the types that follow from their parts."""

from __future__ import annotations

from redfuser.expr.nodes import Axis, Const, Expr, Load, Op, Symbol, Tensor
from redfuser.expr.operators import COMPARISONS, PAIR
from redfuser.extents import Extent, Size

#: dtype of index arithmetic.
INDEX = "int64"


def axis(name: str, extent: Extent) -> Axis:
    """A loop coordinate over ``range(extent)``."""
    return Axis(INDEX, name, extent)


def index(value: Extent) -> Const | Symbol:
    """A constant, or a symbolic size, for index arithmetic."""
    return Symbol(INDEX, value) if isinstance(value, Size) else Const(INDEX, value)


def number(value: float, dtype: str) -> Const:
    """A constant of ``dtype``; infinity is the extreme value of an integer type, and the extreme pair."""
    if "float" in dtype or dtype == PAIR:
        return Const(dtype, float(value))
    if value in (float("inf"), float("-inf")):
        signed = not dtype.startswith("uint")
        bits = int(dtype.removeprefix("uint").removeprefix("int")) - signed
        return Const(dtype, 2**bits - 1 if value > 0 else -(2**bits) * signed)
    return Const(dtype, int(value))


def op(name: str, *args: Expr) -> Expr:
    """Apply an operator; the dtype is that of the first value argument, ``bool`` for comparisons."""
    if name in COMPARISONS:
        return Op("bool", name, args)
    return Op(args[1].dtype if name == "select" else args[0].dtype, name, args)


def cast(value: Expr, dtype: str) -> Expr:
    """Convert a value; no node when the dtype is the same."""
    return value if value.dtype == dtype else Op(dtype, "cast", (value,))


def pair(value: Expr, position: Expr) -> Expr:
    """A value with the position it comes from."""
    return Op(PAIR, "pair", (value, position))


def value_of(item: Expr, dtype: str) -> Expr:
    """The value of a pair, of type ``dtype``."""
    return Op(dtype, "value", (item,))


def position_of(item: Expr) -> Expr:
    """The position of a pair."""
    return Op(INDEX, "position", (item,))


def taken_apart(node: Expr) -> Expr:
    """The part of a pair that is taken from one just made; any other node as it is."""
    if isinstance(node, Op) and node.name in ("value", "position"):
        made = node.args[0]
        if isinstance(made, Op) and made.name == "pair":
            return cast(made.args[0], node.dtype) if node.name == "value" else made.args[1]
    return node


def load(tensor: Tensor, *indices: Expr) -> Load:
    """One element of ``tensor``.

    Raises:
        ValueError: the number of indices isn't the tensor's rank.
    """
    if len(indices) != len(tensor.shape):
        raise ValueError(f"{tensor} takes {len(tensor.shape)} indices, not {len(indices)}")
    return Load(tensor.dtype, tensor, indices)
