"""Expressions as TileLang text."""

from __future__ import annotations

from collections.abc import Callable
from math import e, inf, isinf, isnan, log2

from redfuser.codegen.gpu.emission.open_sizes import Sizes
from redfuser.codegen.gpu.emission.pairs import pair_text, value_text
from redfuser.codegen.refusal import Refused
from redfuser.expr import INDEX, Axis, Const, Expr, Load, Op, Symbol, number
from redfuser.expr.operators import UNARY
from redfuser.expr.saturation import of_nan, saturation, truncates

LOG2_E = log2(e)

#: How strongly Python binds.
COMPARISON, SUM, PRODUCT, ATOM = 1, 2, 3, 4

_INFIX = {
    **{name: (sign, COMPARISON) for name, sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="))},
    **{name: (sign, COMPARISON) for name, sign in (("gt", ">"), ("ge", ">="))},
    **{name: (sign, SUM) for name, sign in (("add", "+"), ("sub", "-"))},
    **{name: (sign, PRODUCT) for name, sign in (("mul", "*"), ("div", "/"), ("floordiv", "//"), ("floormod", "%"))},
}
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
    if dtype == INDEX and value in (number(-inf, dtype).value, number(inf, dtype).value):
        return f'T.{"min" if value < 0 else "max"}_value("{dtype}")'
    if dtype == INDEX:
        return str(int(value))
    if "float" not in dtype:
        return f"T.{dtype}({int(value)})"
    if isnan(value):
        return f'T.{dtype}(float("nan"))'
    if isinf(value):
        return f'{"-" if value == -inf else ""}T.infinity("{dtype}")'
    return f"T.{dtype}({value!r})"


class Writer:
    """Writes expressions.

    Args:
        axis: text of an axis' current point.
        read: text of a load, given the load and the text of its indices.
        fast: whether exponentials may be a multiplication and the hardware's power of two.
        sizes: text of open sizes.
    """

    def __init__(
        self, axis: Callable[[Axis], str], read: Callable[[Load], str], fast: bool, sizes: Sizes | None = None
    ) -> None:
        self.axis = axis
        self.read = read
        self.fast = fast
        self.sizes = sizes or Sizes()

    def text(self, expr: Expr, level: int = 0) -> str:
        """The expression, in parentheses if it binds less than ``level`` asks.

        Raises:
            Refused: an operator has no TileLang counterpart.
        """
        text, own = self._write(expr)
        return text if own >= level else f"({text})"

    def _write(self, expr: Expr) -> tuple[str, int]:
        """Text, and how strongly it binds."""
        if isinstance(expr, Const):
            return constant(expr.value, expr.dtype), ATOM
        if isinstance(expr, Symbol):
            return self.sizes.text(expr.size), ATOM
        if isinstance(expr, Axis):
            text = self.axis(expr)
            return text, SUM if " " in text else ATOM
        if isinstance(expr, Load):
            return self.read(expr), ATOM
        assert isinstance(expr, Op)
        return self._operator(expr)

    def _operator(self, expr: Op) -> tuple[str, int]:
        name, args = expr.name, expr.args
        if name == "div" and "float" not in expr.dtype:
            return f"T.truncdiv({self.text(args[0])}, {self.text(args[1])})", ATOM
        if name in _INFIX:
            sign, own = _INFIX[name]
            left = self.text(args[0], own if own > COMPARISON else SUM)
            return f"{left} {sign} {self.text(args[1], own + 1)}", own
        if name == "cast" and expr.dtype == "bool":
            return f"{self.text(args[0], SUM)} != {constant(0, args[0].dtype)}", COMPARISON
        if name == "exp" and self.fast and expr.dtype == "float32":
            return f"T.exp2({self.text(args[0], PRODUCT)} * {constant(LOG2_E, expr.dtype)})", ATOM
        if name == "pow" and isinstance(args[1], Const) and args[1].value == 2:
            return f"{self.text(args[0], ATOM)} * {self.text(args[0], ATOM)}", PRODUCT
        return self._call(expr), ATOM

    def _call(self, expr: Op) -> str:
        held = saturation(expr)
        if held and held.drops_nan(expr.dtype):
            low, high = (constant(bound.value, bound.dtype) for bound in (held.low, held.high))
            return f'T.cast(T.min(T.max({self.text(held.value)}, {low}), {high}), "{expr.dtype}")'
        name, args = expr.name, list(map(self.text, expr.args))
        if name == "cast" and (expr.dtype, expr.args[0].dtype) == (INDEX, "int32"):
            return args[0]
        if name == "cast":
            least = of_nan(expr.dtype) if truncates(expr) else 0
            result = f'T.cast({args[0]}, "{expr.dtype}")'  # of a NaN 0 on the device
            return f"T.if_then_else(T.isnan({args[0]}), {constant(least, expr.dtype)}, {result})" if least else result
        if name == "pair":
            return pair_text(expr.args[0].dtype, *args)
        if name == "value":
            return value_text(args[0], expr.dtype)
        if name == "position":
            return f"position_of({args[0]})"
        if name in ("max", "min"):
            return self._extremum(expr)
        if name not in _CALLS:
            raise Refused("operator", "an operator has no counterpart in TileLang", name)
        return f"{_CALLS[name]}({', '.join(args)})"

    def _extremum(self, expr: Op) -> str:
        """ONNX hands on a NaN from either side, CUDA's own functions don't."""
        left, right = (self.text(argument) for argument in expr.args)
        if "float" not in expr.dtype:
            return f"T.{expr.name}({left}, {right})"
        test = f"{self.text(expr.args[0], SUM)} {'>' if expr.name == 'max' else '<'} {self.text(expr.args[1], SUM)}"
        return f"T.if_then_else(T.Or({test}, T.isnan({left})), {left}, {right})"
