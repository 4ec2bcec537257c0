"""NumPy evaluation of expressions: what an :class:`~redfuser.expr.Expr` means. No TVM.

This is the reference for every other evaluation. All points are computed at once: each axis is given
as an array of coordinates, and the arrays broadcast against each other. Both branches of a
``select`` are computed, so an index that only the other branch keeps in range is clipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from redfuser.expr import PAIR, Axis, Const, Expr, Load, Op, Tensor, walk
from redfuser.expr.saturation import of_nan

Array = np.ndarray[Any, Any]

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy type of a dtype name, ``bfloat16`` and the ``float8`` types included.

    A pair is a complex number, its value the real part: NumPy orders these as pairs are ordered.

    Raises:
        TypeError: there is no such type.
    """
    if name == PAIR:
        return np.dtype(np.complex128)
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        if not hasattr(ml_dtypes, name):
            raise
        return np.dtype(getattr(ml_dtypes, name))


def evaluate(
    expr: Expr,
    tensors: Mapping[Tensor, Array],
    axes: Mapping[Axis, Array],
    dtype: str | None = None,
) -> Array:
    """The value of ``expr`` at every point of the broadcast of the axes' coordinates.

    Args:
        expr: any expression.
        tensors: contents of every tensor that is loaded, each of the tensor's shape.
        axes: coordinates of every axis that is used; integers that broadcast against each other.
        dtype: ``None`` computes in the dtypes the nodes state. ``"float64"`` computes all floating point
            in float64: the real-number reading, in which casts between float types of 16 bits and more
            change nothing while casts to integers and to ``float8`` still round.

    Returns:
        An array that broadcasts to the axes' common shape: it has length 1 where nothing depends on an axis.

    Raises:
        KeyError: an axis or tensor has no value.
        ValueError: an unknown ``dtype`` argument.
    """
    if dtype not in (None, "float64"):
        raise ValueError(f"evaluate in the stated dtypes (None) or in float64, not {dtype}")
    values: dict[Expr, Array] = {}
    with np.errstate(all="ignore"):
        for node in walk(expr):
            if isinstance(node, Axis):
                values[node] = np.asarray(axes[node])
            elif isinstance(node, Const):
                constant = extreme_pair(node.value) if node.dtype == PAIR else node.value
                values[node] = np.asarray(constant, dtype=_working(node.dtype, dtype))
            elif isinstance(node, Load):
                gathered = _gather(np.asarray(tensors[node.tensor]), [values[i] for i in node.indices])
                values[node] = gathered.astype(_working(node.dtype, dtype), copy=False)
            else:
                assert isinstance(node, Op)
                values[node] = _apply(node, [values[a] for a in node.args], dtype)
    return values[expr]


def extreme_pair(value: float) -> complex:
    """The pair below all others for minus infinity, the one above them for infinity: above even a NaN."""
    return complex(value, value) if value < 0 else complex(math.nan, math.nan)


def open_mesh(axes: Sequence[Axis], ranges: Mapping[Axis, range] | None = None) -> dict[Axis, Array]:
    """Coordinates for :func:`evaluate` that span ``axes`` in order, each whole or over the range given."""
    ranges = ranges or {}
    mesh = {}
    for position, item in enumerate(axes):
        points = ranges.get(item, range(item.extent))
        shape = [1] * len(axes)
        shape[position] = len(points)
        mesh[item] = np.arange(points.start, points.stop, points.step, dtype=np.int64).reshape(shape)
    return mesh


def convert(value: Array, target: str, dtype: str | None = None) -> Array:
    """``cast`` to ``target``: integers truncate, ``float8`` saturates, bool is *not zero* (see :func:`evaluate`).

    A NaN becomes an integer by :func:`~redfuser.expr.saturation.of_nan`: machines differ.
    """
    if target == "bool":
        return np.asarray(value != 0)
    if target.startswith("float8"):
        kind = numpy_dtype(target)
        import ml_dtypes

        limit = float(ml_dtypes.finfo(kind).max)
        rounded = np.clip(value.astype(np.float32), -limit, limit).astype(kind)
        return rounded.astype(_working(target, dtype), copy=False)
    if "int" in target and value.dtype.kind == "f":
        value = np.where(np.isnan(value), value.dtype.type(of_nan(target)), value)
    return value.astype(_working(target, dtype), copy=False)


def _working(name: str, dtype: str | None) -> np.dtype[Any]:
    """The type a value of dtype ``name`` is computed in."""
    real = name in _FLOATS or name.startswith("float8")
    return np.dtype(np.float64) if dtype == "float64" and real else numpy_dtype(name)


def _gather(array: Array, indices: list[Array]) -> Array:
    if not indices:
        return array
    slices = _as_slices(array, indices)
    if slices is not None:
        return slices
    if not array.size:
        return np.zeros(np.broadcast_shapes(*(i.shape for i in indices)), array.dtype)
    clipped = [np.clip(i, 0, extent - 1) for i, extent in zip(indices, array.shape, strict=True)]
    return np.asarray(array[tuple(clipped)])


def _as_slices(array: Array, indices: list[Array]) -> Array | None:
    """The same as a view, when the indices are runs of consecutive points along axes in storage order."""
    rank = max(i.ndim for i in indices)
    shape, slices, last = [1] * rank, [], -1
    for coordinates, extent in zip(indices, array.shape, strict=True):
        count = coordinates.size
        start = int(coordinates.flat[0]) if count else 0
        if start < 0 or start + count > extent or count == 0:
            return None
        if count > 1:
            where = next(d for d, n in enumerate(coordinates.shape) if n > 1) + rank - coordinates.ndim
            if max(coordinates.shape) != count or where <= last:
                return None
            if not np.array_equal(coordinates.reshape(-1), np.arange(start, start + count)):
                return None
            shape[where], last = count, where
        slices.append(slice(start, start + count))
    return array[tuple(slices)].reshape(shape)


def _apply(node: Op, args: list[Array], dtype: str | None) -> Array:
    if node.name == "cast":
        return convert(args[0], node.dtype, dtype)
    if node.name == "value":
        return convert(args[0].real, node.dtype, dtype)
    if node.name == "div" and args[0].dtype.kind in "iu":
        return np.asarray(np.trunc(args[0] / args[1]).astype(args[0].dtype))
    return np.asarray(_FUNCTIONS[node.name](*args))


def _pair(value: Array, position: Array) -> Array:
    result = np.empty(np.broadcast_shapes(value.shape, position.shape), np.complex128)
    result.real, result.imag = value, position
    return result


def _erf(x: Array) -> Array:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x.astype(np.float64))).astype(x.dtype)


def _sigmoid(x: Array) -> Array:
    one = np.asarray(1, dtype=x.dtype)
    return np.asarray(one / (one + np.exp(-x)))


def _rsqrt(x: Array) -> Array:
    return np.asarray(np.asarray(1, dtype=x.dtype) / np.sqrt(x))


#: operator name -> NumPy. ``max`` and ``min`` hand on a NaN from either side, as ONNX does; ``round`` is half to even.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "floormod": np.mod,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "select": np.where,
    "pair": _pair,
    "position": lambda pairs: pairs.imag.astype(np.int64),
    "abs": np.abs,
    "round": np.rint,
    "sigmoid": _sigmoid,
    "rsqrt": _rsqrt,
    "erf": _erf,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    **{name: getattr(np, name) for name in ("exp", "exp2", "log", "log2", "log1p", "sqrt", "floor", "ceil", "trunc")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "isnan", "isinf")},
}
