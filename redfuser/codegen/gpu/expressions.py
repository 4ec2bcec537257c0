"""Expressions as TileLang text."""

from __future__ import annotations

from collections.abc import Callable
from math import e, inf, isinf, isnan, log2

from redfuser.codegen.gpu.refusal import Refused
from redfuser.expr import INDEX, UNARY, Axis, Const, Expr, Load, Op

LOG2_E = log2(e)

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "floormod": "%",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
}  # fmt: skip
_CALLS = {
    **{name: f"T.{name}" for name in (*UNARY, "pow")},
    "round": "T.nearbyint",  # half to even
    "select": "T.if_then_else",
    "and": "T.And",
    "or": "T.Or",
    "not": "T.Not",
}  # fmt: skip


def constant(value: float | int | bool, dtype: str) -> str:
    """A literal of a type."""
    if dtype == "bool":
        return f"T.bool({bool(value)})"
    if dtype == INDEX:
        return str(int(value))
    if "float" not in dtype:
        return f"T.{dtype}({int(value)})"
    if isnan(value):
        return (
            f'T.cast(T.float32(0) / T.float32(0), "{dtype}")' if dtype != "float32" else "(T.float32(0) / T.float32(0))"
        )
    if isinf(value):
        return f'{"-" if value == -inf else ""}T.infinity("{dtype}")'
    return f"T.{dtype}({value!r})"


class Writer:
    """Writes expressions.

    Args:
        axis: text of an axis' current point.
        read: text of a load, given the load and the text of its indices.
        fast: whether exponentials may be a multiplication and the hardware's power of two.
    """

    def __init__(self, axis: Callable[[Axis], str], read: Callable[[Load], str], fast: bool) -> None:
        self.axis = axis
        self.read = read
        self.fast = fast

    def text(self, expr: Expr) -> str:
        """The expression, without parentheses around it.

        Raises:
            Refused: an operator has no TileLang counterpart.
        """
        if isinstance(expr, Const):
            return constant(expr.value, expr.dtype)
        if isinstance(expr, Axis):
            return self.axis(expr)
        if isinstance(expr, Load):
            return self.read(expr)
        assert isinstance(expr, Op)
        return self._operator(expr)

    def _operator(self, expr: Op) -> str:
        name, args = expr.name, expr.args
        if name in _INFIX:
            if name == "div" and "float" not in expr.dtype:
                return f"T.truncdiv({self.text(args[0])}, {self.text(args[1])})"
            return f"{self._inner(args[0])} {_INFIX[name]} {self._inner(args[1])}"
        if name == "cast":
            return self._cast(args[0], expr.dtype)
        if name in ("max", "min"):
            return self._extremum(name, self._inner(args[0]), self._inner(args[1]), expr.dtype)
        if name == "exp" and self.fast and expr.dtype == "float32":
            return f"T.exp2({self._inner(args[0])} * {constant(LOG2_E, expr.dtype)})"
        if name == "pow" and isinstance(args[1], Const) and args[1].value == 2:
            return f"{self._inner(args[0])} * {self._inner(args[0])}"
        if name not in _CALLS:
            raise Refused("operator", "an operator has no counterpart in TileLang", name)
        return f"{_CALLS[name]}({', '.join(map(self.text, args))})"

    def _inner(self, expr: Expr) -> str:
        """The expression as an operand."""
        text = self.text(expr)
        infix = isinstance(expr, Op) and (expr.name in _INFIX or not text.startswith("T."))
        return f"({text})" if infix or (isinstance(expr, Axis) and " " in text) else text

    def _cast(self, value: Expr, dtype: str) -> str:
        if dtype == "bool":
            return f"{self._inner(value)} != {constant(0, value.dtype)}"
        return f'T.cast({self.text(value)}, "{dtype}")'

    @staticmethod
    def _extremum(name: str, left: str, right: str, dtype: str) -> str:
        """ONNX hands on a NaN from either side, CUDA's own functions don't."""
        if "float" not in dtype:
            return f"T.{name}({left}, {right})"
        sign = ">" if name == "max" else "<"
        return f"T.if_then_else(T.Or({left} {sign} {right}, T.isnan({left})), {left}, {right})"
