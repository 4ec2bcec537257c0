"""Combiners on the tile: identities by dtype, and joining two values as an expression."""

from __future__ import annotations

import numpy as np

from redfuser.cascade.model import IDENTITIES
from redfuser.expr import PAIR, Const, Expr, op
from redfuser.expr.evaluate import numpy_dtype

_JOIN = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
_NEUTRAL = {"mul": 1.0, "add": 0.0, "pow": 1.0}


def identity(combiner: str, dtype: str) -> float | int:
    """The value that changes nothing: the type's own limit where integers have no infinity."""
    value = IDENTITIES[combiner]
    if "float" in dtype or dtype == PAIR:
        return value
    if abs(value) != float("inf"):
        return int(value)
    limits = np.iinfo(numpy_dtype(dtype))
    return int(limits.max if value > 0 else limits.min)


def join(combiner: str, left: Expr, right: Expr) -> Expr:
    """``left ⊕ right``."""
    return op(_JOIN[combiner], left, right)


def apply(transform: str, state: Expr, factor: Expr) -> Expr:
    """``state ⊗ factor``, nothing where the factor is neutral."""
    if isinstance(factor, Const) and factor.value == _NEUTRAL.get(transform):
        return state
    return op(transform, state, factor)
