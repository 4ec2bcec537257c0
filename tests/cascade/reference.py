"""Direct evaluation of a cascade, reduction by reduction: what every fused form must equal. No TVM."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from redfuser.cascade.combiners import accumulate, identity
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Tensor
from redfuser.expr.evaluate import convert, evaluate, open_mesh

Array = np.ndarray[Any, Any]

#: Elements held at once; longer axes are folded in pieces.
_LIMIT = 1 << 22


def evaluate_cascade(cascade: Cascade, inputs: Mapping[str, Array], dtype: str | None = "float64") -> dict[str, Array]:
    """The outputs of a cascade by its definition: unfused, each reduction whole before the next.

    Args:
        cascade: verified.
        inputs: contents of its inputs by name.
        dtype: ``"float64"`` for all floating point in float64, ``None`` for the stated dtypes.

    Raises:
        KeyError: an input is missing.
    """
    outputs = {}
    for output, (where, value) in evaluate_points(cascade, inputs, {}, dtype).items():
        outputs[output.name] = result = np.zeros(output.shape, dtype=value.dtype)
        result[where] = value
    return outputs


def evaluate_points(
    cascade: Cascade, inputs: Mapping[str, Array], points: Mapping[Axis, range], dtype: str | None = "float64"
) -> dict[Tensor, tuple[tuple[Array, ...], Array]]:
    """The outputs of a cascade at some of its rows.

    Args:
        points: of axes that are rows; of others all are computed.

    Returns:
        By output, indices into it and the elements there, in one shape.
    """
    memory = {tensor: convert(np.asarray(inputs[tensor.name]), tensor.dtype, dtype) for tensor in cascade.inputs}
    for reduction in (*cascade.producers, *cascade.reductions, *cascade.epilogues):
        memory[reduction.result] = _reduce(reduction, memory, points, dtype)
    outputs = {}
    for output in cascade.outputs:
        mesh = open_mesh(output.axes, points)
        shape = tuple(len(points.get(a, range(a.extent))) for a in output.axes)
        value = convert(evaluate(output.value, memory, mesh, dtype), output.tensor.dtype, dtype)
        where = tuple(np.broadcast_to(evaluate(i, memory, mesh), shape) for i in output.indices)
        outputs[output.tensor] = (where, np.broadcast_to(value, shape))
    return outputs


def _reduce(
    reduction: Reduction, memory: Mapping[Tensor, Array], points: Mapping[Axis, range], dtype: str | None
) -> Array:
    axes = (*reduction.element_axes, reduction.over)
    wanted = [points.get(a, range(a.extent)) for a in reduction.axes]
    shape = tuple(map(len, wanted[: len(axes) - 1]))
    kind = convert(np.zeros(0), reduction.result.dtype, dtype).dtype
    result = np.full(tuple(map(len, wanted)), identity(reduction.combiner, kind), dtype=kind)
    step = max(_LIMIT // max(prod(shape), 1), 1)
    for start in range(0, reduction.over.extent, step):
        part = range(start, min(start + step, reduction.over.extent))
        value = evaluate(reduction.map, memory, open_mesh(axes, {**points, reduction.over: part}), dtype)
        elements = np.broadcast_to(value, (*shape, len(part))).astype(kind, copy=False)
        result = accumulate(reduction.combiner, result, elements)
    whole = np.zeros(reduction.result.shape, dtype=kind)
    whole[np.ix_(*wanted)] = result
    return whole
