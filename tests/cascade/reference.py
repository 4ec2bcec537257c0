"""Direct evaluation of a cascade, reduction by reduction: what every fused form must equal. No TVM."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from redfuser.cascade.model import Cascade, Reduction
from redfuser.combiners import accumulate, identity
from redfuser.evaluate import convert, evaluate, open_mesh
from redfuser.expr import Tensor

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
    memory = {tensor: convert(np.asarray(inputs[tensor.name]), tensor.dtype, dtype) for tensor in cascade.inputs}
    for reduction in (*cascade.producers, *cascade.reductions, *cascade.epilogues):
        memory[reduction.result] = _reduce(reduction, memory, dtype)
    outputs = {}
    for output in cascade.outputs:
        mesh = open_mesh(output.axes)
        shape = tuple(a.extent for a in output.axes)
        value = convert(evaluate(output.value, memory, mesh, dtype), output.tensor.dtype, dtype)
        where = tuple(np.broadcast_to(evaluate(i, memory, mesh), shape) for i in output.indices)
        result = np.zeros(output.tensor.shape, dtype=value.dtype)
        result[where] = np.broadcast_to(value, shape)
        outputs[output.tensor.name] = result
    return outputs


def _reduce(reduction: Reduction, memory: Mapping[Tensor, Array], dtype: str | None) -> Array:
    axes = (*reduction.element_axes, reduction.over)
    shape = tuple(a.extent for a in axes[:-1])
    kind = convert(np.zeros(0), reduction.result.dtype, dtype).dtype
    result = np.full(reduction.result.shape, identity(reduction.combiner, kind), dtype=kind)
    step = max(_LIMIT // max(prod(shape), 1), 1)
    for start in range(0, reduction.over.extent, step):
        points = range(start, min(start + step, reduction.over.extent))
        value = evaluate(reduction.map, memory, open_mesh(axes, {reduction.over: points}), dtype)
        elements = np.broadcast_to(value, (*shape, len(points))).astype(kind, copy=False)
        result = accumulate(reduction.combiner, result, elements)
    return np.asarray(result)
