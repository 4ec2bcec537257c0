"""The operators that expressions are made of, and the type that some of them are about."""

from __future__ import annotations

#: dtype of a value together with a position. Pairs are ordered by value, NaN above all, then by position: what
#: selections (argmax, top-k) fold. Where the lowest position must win a maximum, it is kept negated.
PAIR = "pair"

UNARY = (
    *("abs", "exp", "exp2", "log", "log2", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos", "tan"),
    *("sinh", "cosh", "asin", "acos", "atan", "floor", "ceil", "round", "trunc", "isnan", "isinf"),
)

#: operator name -> (number of arguments, format of the text form)
OPERATORS: dict[str, tuple[int, str]] = {
    "add": (2, "({} + {})"),
    "sub": (2, "({} - {})"),
    "mul": (2, "({} * {})"),
    "div": (2, "({} / {})"),
    "floordiv": (2, "({} // {})"),
    "floormod": (2, "({} % {})"),
    "pow": (2, "pow({}, {})"),
    "max": (2, "max({}, {})"),
    "min": (2, "min({}, {})"),
    "eq": (2, "({} == {})"),
    "ne": (2, "({} != {})"),
    "lt": (2, "({} < {})"),
    "le": (2, "({} <= {})"),
    "gt": (2, "({} > {})"),
    "ge": (2, "({} >= {})"),
    "and": (2, "({} and {})"),
    "or": (2, "({} or {})"),
    "not": (1, "(not {})"),
    "select": (3, "select({}, {}, {})"),
    "cast": (1, "cast({})"),
    "pair": (2, "pair({}, {})"),
    "value": (1, "value({})"),
    "position": (1, "position({})"),
    **{name: (1, name + "({})") for name in UNARY},
}

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "isnan", "isinf"})
