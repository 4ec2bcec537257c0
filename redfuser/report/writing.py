"""Expressions as a person writes them: few brackets, short names, the signs of mathematics.

:mod:`redfuser.report.ascii` spells the same text in plain characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from redfuser.expr import Const, Expr, Load, Op

#: how tightly an operator binds
_CHOICE, _LOGIC, _RELATION, _SUM, _PRODUCT, _POWER, _ATOM = range(7)
_INFIX = {"add": (" + ", _SUM), "sub": (" − ", _SUM), "mul": ("·", _PRODUCT), "div": ("/", _PRODUCT)}
_RELATIONS = {"eq": "=", "ne": "≠", "lt": "<", "le": "≤", "gt": ">", "ge": "≥"}
_LOGICAL = {"and": " ∧ ", "or": " ∨ "}
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
#: over the name of a base point
TILDE = "\u0303"
#: after the name of a value that a correction starts from
PRIME = "\u2032"
#: floats by precision; a cast to one of higher precision changes nothing
_PRECISION = {"float16": 1, "bfloat16": 1, "float32": 2, "float64": 3}


@dataclass(frozen=True)
class Writer:
    """Writes expressions.

    Args:
        names: what to write for whole sub-expressions; the outermost wins.
        tensors: what to call tensors, by name.
        bare: names of tensors written without indices.
    """

    names: Mapping[Expr, str] = field(default_factory=dict)
    tensors: Mapping[str, str] = field(default_factory=dict)
    bare: frozenset[str] = frozenset()

    def write(self, expr: Expr) -> str:
        """The text of ``expr``."""
        return self._text(expr)[0]

    def factor(self, expr: Expr) -> str:
        """The text of ``expr``, in brackets unless it is a single term."""
        return self._inside(expr, _ATOM)

    def term(self, expr: Expr) -> str:
        """The text of ``expr``, in brackets if it is a sum."""
        return self._inside(expr, _PRODUCT)

    def tensor(self, name: str) -> str:
        """A tensor's name; those of a derivation (see ``algebra.derivation``) as ``m̃``, ``m̃′``, ``t₀``."""
        if name in self.tensors:
            return self.tensors[name]
        text, *suffixes = name.split(".")
        for suffix in suffixes:
            text += {"base": TILDE, "previous": PRIME}.get(suffix, suffix.translate(_SUBSCRIPTS))
        return text

    def number(self, value: float, dtype: str = "float32") -> str:
        """A number: the shortest text that stands for no other of its type."""
        with np.errstate(over="ignore"):  # what is too large for float32 is printed as float64
            narrow = np.float32(value)
        single = dtype != "float64" or float(narrow) == value
        text = str(narrow if single else np.float64(value)) if "float" in dtype else f"{value:g}"
        return text.removesuffix(".0").replace("inf", "∞").replace("-", "−")

    def _text(self, expr: Expr) -> tuple[str, int]:
        """The text and how tightly its outermost operator binds."""
        if expr in self.names:
            return self.names[expr], _ATOM
        if isinstance(expr, Load):
            return self._load(expr), _ATOM
        if isinstance(expr, Const):
            if isinstance(expr.value, bool):
                return str(expr.value).lower(), _ATOM
            return self.number(expr.value, expr.dtype), _ATOM if float(expr.value) >= 0 else _SUM
        return self._operator(expr) if isinstance(expr, Op) else (str(expr), _ATOM)

    def _load(self, node: Load) -> str:
        name = self.tensor(node.tensor.name)
        owner = node.tensor.name.partition(".")[0]
        if not node.indices or owner in self.bare or node.tensor.name in self.bare:
            return name
        return f"{name}[{', '.join(map(self.write, node.indices))}]"

    def _operator(self, expr: Op) -> tuple[str, int]:
        name, args = expr.name, expr.args
        if name == "mul" and isinstance(args[0], Const) and args[0].value == -1:
            return "−" + self.term(args[1]), _SUM
        if name == "mul" and (power := _power(expr)) is not None:
            base, exponent = power
            return self.factor(base) + str(exponent).translate(_SUPERSCRIPTS), _POWER
        if name in _INFIX:
            sign, level = _INFIX[name]
            return self._infix(sign, args, level, level + 1 if name in ("sub", "div") else level), level
        if name in _RELATIONS:
            return self._infix(f" {_RELATIONS[name]} ", args, _SUM, _SUM), _RELATION
        if name in _LOGICAL:
            return self._infix(_LOGICAL[name], args, _RELATION, _RELATION), _LOGIC
        if name == "select":
            condition, chosen, otherwise = args
            return f"{self._inside(chosen, _SUM)} if {self.write(condition)} else {self.write(otherwise)}", _CHOICE
        if name == "pow":
            return f"{self.factor(args[0])}^{self.factor(args[1])}", _POWER
        if name == "cast":
            return self._cast(expr)
        if name == "abs":
            return f"|{self.write(args[0])}|", _ATOM
        name = {"sqrt": "√"}.get(name, name)
        return f"{name}({', '.join(map(self.write, args))})", _ATOM

    def _infix(self, sign: str, args: tuple[Expr, ...], left: int, right: int) -> str:
        return self._inside(args[0], left) + sign + self._inside(args[1], right)

    def _cast(self, expr: Op) -> tuple[str, int]:
        """Only casts that can change a value show; a truth value as a number is ``[x = m]``."""
        before, after = expr.args[0].dtype, expr.dtype
        if before == "bool":
            return f"[{self.write(expr.args[0])}]", _ATOM
        if _PRECISION.get(after, 0) > _PRECISION.get(before, 9):
            return self._text(expr.args[0])
        return f"{after}({self.write(expr.args[0])})", _ATOM

    def _inside(self, expr: Expr, level: int) -> str:
        text, own = self._text(expr)
        return text if own >= level else f"({text})"


def _power(expr: Op) -> tuple[Expr, int] | None:
    """The factor and how often it occurs, if ``expr`` is a product of equal factors."""
    base, exponent, rest = expr.args[1], 1, expr.args[0]
    while rest != base:
        if not (isinstance(rest, Op) and rest.name == "mul" and rest.args[1] == base):
            return None
        rest, exponent = rest.args[0], exponent + 1
    return base, exponent + 1
