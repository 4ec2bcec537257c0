"""What combiners do to arrays: the meaning of every ⊕ in NumPy. No TVM.

A list (``topk``, ``bottomk``) has its places along the last axis. Pairs are complex numbers (see
:func:`redfuser.expr.evaluate.numpy_dtype`), which sorting puts in their order; comparing them would stop at a NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from redfuser.cascade.model import IDENTITIES, LISTS
from redfuser.expr.evaluate import extreme_pair

Array = np.ndarray[Any, Any]

_UFUNCS: dict[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def identity(combiner: str, kind: np.dtype[Any]) -> complex | float | int:
    """The value that changes nothing: a type's own limit where integers have no infinity, the extreme pair of pairs."""
    value = IDENTITIES[combiner]
    if kind.kind == "c":
        return extreme_pair(value)
    if kind.kind == "b":
        return value > 0
    if kind.kind in "iu" and abs(value) == float("inf"):
        return int(np.iinfo(kind).max if value > 0 else np.iinfo(kind).min)
    return value


def join(combiner: str, left: Array, right: Array) -> Array:
    """``left ⊕ right``, element by element; of lists, the best of both."""
    return accumulate(combiner, left, right if combiner in LISTS else right[..., np.newaxis])


def accumulate(combiner: str, present: Array, elements: Array) -> Array:
    """``present ⊕ (⊕ over the last axis of elements)``."""
    if combiner in LISTS:
        return _best(combiner == "topk", np.concatenate([present, elements], axis=-1), present.shape[-1])
    if elements.dtype.kind == "c":
        together = np.concatenate([present[..., np.newaxis], elements], axis=-1)
        return _best(combiner == "max", together, 1)[..., 0]
    ufunc = _UFUNCS[combiner]
    return np.asarray(ufunc(present, ufunc.reduce(elements, axis=-1, dtype=elements.dtype)))


def _best(largest: bool, pairs: Array, count: int) -> Array:
    """The ``count`` best pairs along the last axis, the best first."""
    ascending = np.sort(pairs, axis=-1)
    return (ascending[..., ::-1] if largest else ascending)[..., :count]
