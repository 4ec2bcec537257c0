"""Expressions as a person writes them: few brackets, short names, Unicode or plain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from redfuser.expr import Const, Expr, Load, Op

_SUM, _PRODUCT, _POWER, _ATOM = 1, 2, 3, 4
#: operator -> (Unicode, plain)
_INFIX = {"add": (" + ", " + "), "sub": (" − ", " - "), "mul": ("·", "*"), "div": ("/", "/")}
_RELATIONS = {
    "eq": ("=", "=="),
    "ne": ("≠", "!="),
    "lt": ("<", "<"),
    "le": ("≤", "<="),
    "gt": (">", ">"),
    "ge": ("≥", ">="),
    "and": ("∧", "and"),
    "or": ("∨", "or"),
}
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True)
class Writer:
    """Writes expressions.

    Args:
        ascii: plain characters only.
        names: what to write for whole sub-expressions; the outermost wins.
    """

    ascii: bool = False
    names: Mapping[Expr, str] = field(default_factory=dict)

    def write(self, expr: Expr) -> str:
        """The text of ``expr``."""
        return self._text(expr)[0]

    def factor(self, expr: Expr) -> str:
        """The text of ``expr``, in brackets unless it is a single term."""
        return self._inside(expr, _ATOM)

    def term(self, expr: Expr) -> str:
        """The text of ``expr``, in brackets if it is a sum."""
        return self._inside(expr, _PRODUCT)

    def pick(self, unicode: str, plain: str) -> str:
        """One of two spellings."""
        return plain if self.ascii else unicode

    def tensor(self, name: str) -> str:
        """A tensor's name; those of a derivation as ``m̃``, ``m̃_old``, ``t₀``."""
        text, *suffixes = name.split(".")
        for suffix in suffixes:
            if suffix == "base":
                text += self.pick("\u0303", "~")
            elif suffix == "previous":
                text += "_old"
            else:
                text += self.pick(suffix.translate(_SUBSCRIPTS), suffix)
        return text

    def number(self, value: float) -> str:
        """A number."""
        return f"{value:g}".replace("inf", self.pick("∞", "inf")).replace("-", self.pick("−", "-"))

    def _text(self, expr: Expr) -> tuple[str, int]:
        """The text and how tightly its outermost operator binds."""
        if expr in self.names:
            return self.names[expr], _ATOM
        if isinstance(expr, Load):
            return self.tensor(expr.tensor.name), _ATOM
        if isinstance(expr, Const):
            return self.number(float(expr.value)), _ATOM if float(expr.value) >= 0 else _SUM
        return self._operator(expr) if isinstance(expr, Op) else (str(expr), _ATOM)

    def _operator(self, expr: Op) -> tuple[str, int]:
        name, args = expr.name, expr.args
        if name == "mul" and isinstance(args[0], Const) and args[0].value == -1:
            return self.pick("−", "-") + self.term(args[1]), _SUM
        if name in _INFIX:
            level = _SUM if name in ("add", "sub") else _PRODUCT
            right = level + 1 if name in ("sub", "div") else level
            return _INFIX[name][self.ascii].join((self._inside(args[0], level), self._inside(args[1], right))), level
        if name == "pow":
            return f"{self.factor(args[0])}^{self.factor(args[1])}", _POWER
        return self._function(name, [self.write(arg) for arg in args], expr.dtype), _ATOM

    def _function(self, name: str, args: list[str], dtype: str) -> str:
        if name in _RELATIONS:
            return f"({args[0]} {_RELATIONS[name][self.ascii]} {args[1]})"
        if name == "select":
            return f"({args[1]} if {args[0]} else {args[2]})"
        if name == "abs":
            return f"|{args[0]}|"
        if name == "sqrt":
            name = self.pick("√", "sqrt")
        return f"{dtype if name == 'cast' else name}({', '.join(args)})"

    def _inside(self, expr: Expr, level: int) -> str:
        text, own = self._text(expr)
        return text if own >= level else f"({text})"
