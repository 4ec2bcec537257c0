"""Normalisations whose stock converters lack outputs, axes or exactness."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    Attributes,
    Inputs,
    constant,
    dtype_of,
    extents_of,
    optional,
    output_count,
    rank_of,
    shape_of,
    static_extents,
)


def convert_layer_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
    """LayerNormalization; the mean and the inverse deviation only where the node names them."""
    data, scale, bias = inputs[0], inputs[1], optional(inputs, 2)
    shape = extents_of(data)
    axes = list(range(attributes.get("axis", -1) % len(shape), len(shape)))
    normalised = static_extents([shape[axis] for axis in axes])
    epsilon = attributes.get("epsilon", 1e-5)
    weight = _expanded(bb, scale, normalised)
    shift = relax.const(np.zeros(normalised), dtype_of(data)) if bias is None else _expanded(bb, bias, normalised)
    results = [bb.emit(R.nn.layer_norm(data, weight, shift, axes, epsilon))]
    if output_count(attributes) > 1:
        results.append(bb.emit(R.mean(data, axes, True)))
        variance = bb.emit(R.add(bb.emit(R.variance(data, axes, True)), relax.const(epsilon, dtype_of(data))))
        results.append(R.divide(relax.const(1, dtype_of(data)), bb.emit(R.sqrt(variance))))
    return results


def convert_instance_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """InstanceNormalization; its variance is about the one mean, where the stock converter computes that again."""
    data = inputs[0]
    axes, shape = list(range(2, rank_of(data))), (-1, *[1] * (rank_of(data) - 2))
    centred = bb.emit(R.subtract(data, bb.emit(R.mean(data, axes, True))))
    variance = bb.emit(R.mean(bb.emit(R.multiply(centred, centred)), axes, True))
    spread = bb.emit(R.add(variance, relax.const(attributes.get("epsilon", 1e-5), dtype_of(data))))
    normalised = bb.emit(R.divide(centred, bb.emit(R.sqrt(spread))))
    scale, bias = (bb.emit(R.reshape(value, shape)) for value in inputs[1:3])
    return R.add(bb.emit(R.multiply(normalised, scale)), bias)


def convert_rms_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """RMSNormalization over the axes from ``axis`` on, folded into one."""
    data, scale = inputs[0], inputs[1]
    shape = extents_of(data)
    axis = attributes.get("axis", -1) % len(shape)
    weight = _expanded(bb, scale, static_extents(shape[axis:]))
    epsilon = attributes.get("epsilon", 1e-5)
    if axis == len(shape) - 1 and axis > 0:
        return R.nn.rms_norm(data, weight, [axis], epsilon)
    width = math.prod(shape[axis:])
    rows = bb.emit(R.reshape(data, (math.prod(shape[:axis]), width)))
    flat = bb.emit(R.nn.rms_norm(rows, bb.emit(R.reshape(weight, (width,))), [1], epsilon))
    return R.reshape(flat, shape)


def convert_lp_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """LpNormalization: divided by the sum of magnitudes, or the root of the sum of squares; zeros stay zero."""
    data, axes = inputs[0], [attributes.get("axis", -1)]
    if attributes.get("p", 2) == 1:
        norm = bb.emit(R.sum(bb.emit(R.abs(data)), axes, True))
    else:
        norm = bb.emit(R.sqrt(bb.emit(R.sum(bb.emit(R.multiply(data, data)), axes, True))))
    zero, one = (relax.const(value, dtype_of(data)) for value in (0, 1))
    return R.divide(data, bb.emit(R.where(bb.emit(R.equal(norm, zero)), one, norm)))


def _expanded(bb: relax.BlockBuilder, value: relax.Expr, shape: Sequence[int]) -> relax.Expr:
    """A scale or bias in the full normalised shape."""
    return value if shape_of(value) == tuple(shape) else bb.emit(R.broadcast_to(value, tuple(shape)))


def convert_batch_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """BatchNormalization of inference: ``x·factor + shift``, both folded from constants in float64."""
    if attributes.get("training_mode", 0) or output_count(attributes) > 1:
        raise ValueError("training mode is not supported")
    data = inputs[0]
    names = ("scale", "bias", "mean", "variance")
    scale, bias, mean, variance = (
        constant(value, name).astype(np.float64) for name, value in zip(names, inputs[1:5], strict=True)
    )
    factor = scale / np.sqrt(variance + attributes.get("epsilon", 1e-5))
    shape = (-1, *[1] * (rank_of(data) - 2))
    scaled = bb.emit(R.multiply(data, relax.const(factor.reshape(shape), dtype_of(data))))
    return R.add(scaled, relax.const((bias - mean * factor).reshape(shape), dtype_of(data)))
