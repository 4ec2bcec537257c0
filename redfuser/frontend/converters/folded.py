"""Operations on weights: done now on constants, by Relax on anything else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax
from tvm.relax import op as R

from redfuser.contents import contents, held
from redfuser.frontend.converters.common import extents_of


def part(bb: relax.BlockBuilder, value: relax.Expr, axis: int, first: int, last: int) -> relax.Expr:
    """Elements ``first … last - 1`` along an axis."""
    if (first, last) == (0, extents_of(value)[axis]):
        return value
    if isinstance(value, relax.Constant):
        return _constant(np.take(contents(value), range(first, last), axis))
    return bb.emit(R.strided_slice(value, [axis], [first], [last]))


def padded(bb: relax.BlockBuilder, value: relax.Expr, axis: int, count: int) -> relax.Expr:
    """So many zeros behind the elements along an axis."""
    if not count:
        return value
    widths = [(0, count if place == axis else 0) for place in range(len(extents_of(value)))]
    if isinstance(value, relax.Constant):
        return _constant(np.pad(contents(value), widths))
    return bb.emit(R.nn.pad(value, [n for pair in widths for n in pair]))


def reshaped(bb: relax.BlockBuilder, value: relax.Expr, shape: Sequence[int]) -> relax.Expr:
    """In another shape."""
    if isinstance(value, relax.Constant):
        return _constant(contents(value).reshape(shape))
    return bb.emit(R.reshape(value, tuple(shape)))


def transposed(bb: relax.BlockBuilder, value: relax.Expr, order: Sequence[int]) -> relax.Expr:
    """With its axes in another order."""
    if isinstance(value, relax.Constant):
        return _constant(np.ascontiguousarray(contents(value).transpose(order)))
    return bb.emit(R.permute_dims(value, list(order)))


def added(bb: relax.BlockBuilder, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    """The sum of two values of one shape."""
    if isinstance(a, relax.Constant) and isinstance(b, relax.Constant):
        return _constant(contents(a) + contents(b))
    return bb.emit(R.add(a, b))


def zeros(dtype: str, shape: Sequence[int]) -> relax.Constant:
    """A constant of zeros."""
    return _constant(np.zeros(shape, dtype))


def _constant(array: np.ndarray) -> relax.Constant:
    return relax.Constant(held(array))
