"""The tensors of a derivation, by the names that ``derivation`` fixes; each is loaded at the reduction's axes."""

from __future__ import annotations

from redfuser.cascade.model import Reduction
from redfuser.expr import Expr, Load, Tensor, load

BASE = "base"
PREVIOUS = "previous"


def accumulator(dtype: str) -> str:
    """The type a state is kept in: at least float32 for floats."""
    return "float32" if dtype in ("float16", "bfloat16") or dtype.startswith("float8") else dtype


def component(reduction: Reduction, place: int) -> Load:
    """``r.place``: one number of the state."""
    return _at(reduction, str(place), accumulator(reduction.result.dtype))


def base(reduction: Reduction) -> Load:
    """``r.base``: what elements are taken against in place of the reduction's value."""
    return _at(reduction, BASE, reduction.result.dtype)


def previous(value: Expr) -> Load:
    """``X.previous``: the value X had before the tile now being folded in."""
    assert isinstance(value, Load)
    tensor = value.tensor
    return load(Tensor(f"{tensor.name}.{PREVIOUS}", tensor.shape, tensor.dtype), *value.indices)


def _at(reduction: Reduction, suffix: str, dtype: str) -> Load:
    result = reduction.result
    return load(Tensor(f"{result.name}.{suffix}", result.shape, dtype), *reduction.axes)
