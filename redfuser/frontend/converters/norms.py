"""Normalisations whose stock converters lack outputs, axes or exactness."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from onnx import TensorProto
from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    HALF,
    Attributes,
    Inputs,
    cast,
    constant,
    dtype_of,
    extents_of,
    optional,
    output_count,
    rank_of,
    shape_of,
    static_extents,
)

#: What is added to a variance unless the node says otherwise: as all attributes of ONNX, a float32.
EPSILON = float(np.float32(1e-5))

#: How much of a running statistic a batch leaves, unless the node says otherwise.
MOMENTUM = float(np.float32(0.9))


def convert_layer_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
    """LayerNormalization, of half precision in float32; mean and inverse deviation only where the node names them."""
    dtype = dtype_of(inputs[0])
    wide = _wide(inputs[0])
    data, scale, bias = (None if v is None else cast(bb, v, wide) for v in (*inputs[:2], optional(inputs, 2)))
    shape = extents_of(data)
    axes = list(range(attributes.get("axis", -1) % len(shape), len(shape)))
    normalised = static_extents([shape[axis] for axis in axes])
    epsilon = attributes.get("epsilon", EPSILON)
    weight = _expanded(bb, scale, normalised)
    shift = relax.const(np.zeros(normalised), wide) if bias is None else _expanded(bb, bias, normalised)
    if wide == "float64":  # TVM's own knows float32 alone
        normal = bb.emit(R.multiply(_standardised(bb, data, axes, epsilon), weight))
        results = [bb.emit(R.add(normal, shift))]
    else:
        results = [cast(bb, bb.emit(R.nn.layer_norm(data, weight, shift, axes, epsilon)), dtype)]
    if output_count(attributes) > 1:
        stash = "bfloat16" if attributes.get("stash_type", 1) == TensorProto.BFLOAT16 else "float32"
        results += [cast(bb, value, stash) for value in _statistics(bb, data, axes, epsilon)]
    return results


def _statistics(bb: relax.BlockBuilder, data: relax.Expr, axes: Sequence[int], epsilon: float) -> list[relax.Expr]:
    """Mean and inverse deviation."""
    dtype = dtype_of(data)
    variance = bb.emit(R.add(bb.emit(R.variance(data, axes, True)), relax.const(epsilon, dtype)))
    inverse = R.divide(relax.const(1, dtype), bb.emit(R.sqrt(variance)))
    return [bb.emit(R.mean(data, axes, True)), bb.emit(inverse)]


def convert_mean_variance_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """MeanVarianceNormalization: ``(x − mean)/(deviation + 10⁻⁹)``; the stock converter drops what is added."""
    data, axes = inputs[0], list(attributes.get("axes", (0, 2, 3)))
    centred = bb.emit(R.subtract(data, bb.emit(R.mean(data, axes, True))))
    variance = bb.emit(R.mean(bb.emit(R.multiply(centred, centred)), axes, True))
    return R.divide(centred, bb.emit(R.add(bb.emit(R.sqrt(variance)), relax.const(1e-9, dtype_of(data)))))


def convert_instance_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """InstanceNormalization; its variance is about the one mean, where the stock converter computes that again."""
    data = inputs[0]
    axes, shape = list(range(2, rank_of(data))), (-1, *[1] * (rank_of(data) - 2))
    normalised = _standardised(bb, data, axes, attributes.get("epsilon", EPSILON))
    scale, bias = (bb.emit(R.reshape(value, shape)) for value in inputs[1:3])
    return R.add(bb.emit(R.multiply(normalised, scale)), bias)


def _standardised(bb: relax.BlockBuilder, data: relax.Expr, axes: Sequence[int], epsilon: float) -> relax.Expr:
    """``(x − mean)/√(variance + ε)``, the variance about the one mean."""
    centred = bb.emit(R.subtract(data, bb.emit(R.mean(data, axes, True))))
    variance = bb.emit(R.mean(bb.emit(R.multiply(centred, centred)), axes, True))
    spread = bb.emit(R.add(variance, relax.const(epsilon, dtype_of(data))))
    return bb.emit(R.divide(centred, bb.emit(R.sqrt(spread))))


def convert_rms_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """RMSNormalization over the axes from ``axis`` on, folded into one."""
    data, scale = inputs[0], inputs[1]
    shape = extents_of(data)
    axis = attributes.get("axis", -1) % len(shape)
    weight = _expanded(bb, scale, static_extents(shape[axis:]))
    epsilon = attributes.get("epsilon", EPSILON)
    if dtype_of(data) == "float64":  # TVM's own rounds it to float32
        mean = bb.emit(R.mean(bb.emit(R.multiply(data, data)), list(range(axis, len(shape))), True))
        root = bb.emit(R.sqrt(bb.emit(R.add(mean, relax.const(epsilon, "float64")))))
        return R.multiply(bb.emit(R.divide(data, root)), weight)
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


def convert_batch_norm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
    """BatchNormalization: of inference ``x·factor + shift``, both folded in float64 where they come from constants.

    In training mode statistics are those of the batch, and two more outputs are the running ones after it.
    """
    if attributes.get("training_mode", 0):
        return _batch_norm_of_training(bb, inputs, attributes)
    data, epsilon = inputs[0], attributes.get("epsilon", EPSILON)
    if not all(isinstance(value, relax.Constant) for value in inputs[1:5]):
        return [_batch_norm(bb, inputs[:5], epsilon)]
    names = ("scale", "bias", "mean", "variance")
    scale, bias, mean, variance = (
        constant(value, name).astype(np.float64) for name, value in zip(names, inputs[1:5], strict=True)
    )
    factor = scale / np.sqrt(variance + epsilon)
    shape = (-1, *[1] * (rank_of(data) - 2))
    scaled = bb.emit(R.multiply(data, relax.const(factor.reshape(shape), dtype_of(data))))
    return [R.add(scaled, relax.const((bias - mean * factor).reshape(shape), dtype_of(data)))]


def _batch_norm_of_training(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> list[relax.Expr]:
    data, scale, bias, *running = inputs[:5]
    wide = cast(bb, data, _wide(data))
    axes = [axis for axis in range(rank_of(data)) if axis != 1]
    mean = bb.emit(R.mean(wide, axes, True))
    centred = bb.emit(R.subtract(wide, mean))
    variance = bb.emit(R.mean(bb.emit(R.multiply(centred, centred)), axes, True))
    result = _batch_norm(bb, (wide, scale, bias, mean, variance), attributes.get("epsilon", EPSILON))
    kept = attributes.get("momentum", MOMENTUM)
    after = [_moved(bb, old, new, kept) for old, new in zip(running, (mean, variance), strict=True)]
    return [cast(bb, result, dtype_of(data)), *after]


def _moved(bb: relax.BlockBuilder, old: relax.Expr, new: relax.Expr, kept: float) -> relax.Expr:
    """A running statistic after a batch: ``old·kept + new·(1 − kept)``."""
    dtype = dtype_of(new)
    before = bb.emit(R.multiply(cast(bb, old, dtype), relax.const(kept, dtype)))
    now = bb.emit(R.multiply(bb.emit(R.reshape(new, extents_of(old))), relax.const(1 - kept, dtype)))
    return cast(bb, bb.emit(R.add(before, now)), dtype_of(old))


def _batch_norm(bb: relax.BlockBuilder, values: Sequence[relax.Expr], epsilon: float) -> relax.Expr:
    """``(x − mean)/√(variance + ε)·scale + bias`` of data, scale, bias, mean and variance; these by channel."""
    wide = _wide(values[0])
    shape = (-1, *[1] * (rank_of(values[0]) - 2))
    data, *channels = (cast(bb, value, wide) for value in values)
    scale, bias, mean, variance = (bb.emit(R.reshape(value, shape)) for value in channels)
    root = bb.emit(R.sqrt(bb.emit(R.add(variance, relax.const(epsilon, wide)))))
    normal = bb.emit(R.divide(bb.emit(R.subtract(data, mean)), root))
    result = bb.emit(R.add(bb.emit(R.multiply(normal, scale)), bias))
    return cast(bb, result, dtype_of(values[0]))


def _wide(data: relax.Expr) -> str:
    """The type that statistics of data are computed in."""
    return "float32" if dtype_of(data) in HALF else dtype_of(data)
