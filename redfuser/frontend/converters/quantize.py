"""Quantisation: to and from integers of any width and 8-bit floats, by tensor, axis or block; products of such data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto
from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters.bytes import integer_product, kept_apart, of_rows
from redfuser.frontend.converters.common import (
    HALF,
    Attributes,
    Converter,
    Inputs,
    dtype_of,
    extents_of,
    optional,
    output_type,
    rank_of,
)
from redfuser.frontend.element_types import element_type, integer_limits, is_narrow

#: Types of data that is dequantised at once where it is known.
INTEGERS = frozenset(["int8", "uint8", "int16", "uint16", "int32"])


def convert_dequantize(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """DequantizeLinear: ``(x - zero_point) · scale``, computed in float32 at least."""
    data, scale, zero = inputs[0], inputs[1], _unless_zero(optional(inputs, 2))
    result, wide = output_type(attributes), _wide(dtype_of(scale))
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    known = [part.data.numpy() for part in (data, scale, zero) if isinstance(part, relax.Constant)]
    if len(known) == 2 + (zero is not None) and dtype_of(data) in INTEGERS and result != "bfloat16":
        return relax.const(_dequantised(known, axis, block, wide).astype(result, copy=False))
    # Differences of 8- and 16-bit integers are exact in float32; those of int32 are taken before they are rounded.
    exact = "int32" if dtype_of(data) == "int32" else wide
    value = _cast(bb, data, exact)
    if zero is not None:
        value = bb.emit(R.subtract(value, _cast(bb, _aligned(bb, zero, data, axis, block), exact)))
    factor = _cast(bb, _aligned(bb, scale, data, axis, block), wide)
    return _cast(bb, bb.emit(R.multiply(_cast(bb, value, wide), factor)), result)


def _dequantised(parts: Sequence[np.ndarray], axis: int, block: int, wide: str) -> np.ndarray:
    """Data, its scale and, if there is one, its zero point as numbers."""
    data, *others = parts
    if block:
        others = [part.repeat(block, axis).take(range(data.shape[axis]), axis) for part in others]
    elif others[0].size > 1:
        extents = [1] * data.ndim
        extents[axis] = -1
        others = [part.reshape(extents) for part in others]
    scale, *zeros = others
    value = data.astype(np.int64 if zeros and data.dtype == np.int32 else wide)
    if zeros:
        value -= zeros[0].astype(value.dtype)
    value = value.astype(wide, copy=False)
    value *= scale.astype(wide)
    return value


def convert_quantize(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """QuantizeLinear: ``saturate(round(x / scale) + zero_point)``; halves are rounded to even.

    The quotient has the type of the scale, or the one that ``precision`` names.
    """
    data, scale, zero = inputs[0], inputs[1], optional(inputs, 2)
    axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
    wide = _wide(dtype_of(scale))
    scaled = _cast(bb, data, wide)
    if not _is_one(scale):
        scaled = bb.emit(R.divide(scaled, _cast(bb, _aligned(bb, scale, data, axis, block), wide)))
    precision = attributes.get("precision", 0)
    narrow = element_type(precision) if precision else dtype_of(scale)
    if narrow in HALF:  # of such operands, the quotient rounded to float32 first is the same
        scaled = _cast(bb, _cast(bb, scaled, narrow), wide)
    zero = _unless_zero(zero)
    shift = None if zero is None else _cast(bb, _aligned(bb, zero, data, axis, block), wide)
    return quantised(bb, scaled, shift, output_type(attributes), attributes)


def quantised(
    bb: relax.BlockBuilder, scaled: relax.Expr, shift: relax.Expr | None, target: str, attributes: Attributes
) -> relax.Expr:
    """Numbers in units of their scale, in a quantised type.

    Args:
        scaled: floating point.
        shift: the zero point in the same type; None for zero.
        target: NumPy's name of the ONNX type.
    """
    if target == "float4_e2m1fn":
        return _to_float4(bb, scaled)
    if target.startswith("float8"):
        if not attributes.get("saturate", 1):
            raise ValueError("saturate = 0 is not supported")
        return R.astype(scaled, target)  # casts to 8-bit floats round and saturate
    whole = bb.emit(R.round(scaled))
    if shift is not None:
        whole = bb.emit(R.add(whole, shift))
    low, high = integer_limits(target)
    held = target if low in (-128, -32768) or high in (255, 65535) else "int8" if low else "uint8"
    wide = dtype_of(scaled)
    bounded = bb.emit(R.minimum(bb.emit(R.maximum(whole, relax.const(low, wide))), relax.const(high, wide)))
    return R.astype(bounded, held)


def convert_cast(stock: Converter) -> Converter:
    """Cast: to types of less than a byte by their low bits, or rounded to the nearest; to others by TVM's converter."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr | Sequence[relax.Expr]:
        target = output_type(attributes)
        if not is_narrow(target):
            return stock(bb, inputs, attributes)
        if target == "float4_e2m1fn":
            return _to_float4(bb, _cast(bb, inputs[0], "float32"))
        low, high = integer_limits(target)
        whole = bb.normalize(stock(bb, inputs, {**attributes, "to": TensorProto.INT32}))
        bits = bb.emit(R.bitwise_and(whole, relax.const(high - low, "int32")))
        sign = relax.const(-low, "int32")
        signed = bits if low == 0 else bb.emit(R.subtract(bb.emit(R.bitwise_xor(bits, sign)), sign))
        return R.astype(signed, "int8" if low else "uint8")

    return convert


def _to_float4(bb: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """The nearest of 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives, ties to the even code."""
    wide = dtype_of(value)
    magnitude = bb.emit(R.abs(value))

    def multiples(step: float) -> relax.Expr:
        whole = bb.emit(R.round(bb.emit(R.divide(magnitude, relax.const(step, wide)))))
        return bb.emit(R.multiply(whole, relax.const(step, wide)))

    nearest = multiples(2.0)
    for bound, step in ((4.0, 1.0), (2.0, 0.5)):
        nearest = bb.emit(R.where(bb.emit(R.less(magnitude, relax.const(bound, wide))), multiples(step), nearest))
    bounded = bb.emit(R.minimum(nearest, relax.const(6.0, wide)))
    negative = bb.emit(R.less(value, relax.const(0, wide)))
    return R.astype(bb.emit(R.where(negative, bb.emit(R.negative(bounded)), bounded)), "float8_e4m3fn")


def convert_dynamic_quantize(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
    """DynamicQuantizeLinear to uint8; data that is zero throughout gets scale 1, as in ONNX Runtime."""
    data = inputs[0]
    zero, steps, one = (relax.const(value, "float32") for value in (0, 255, 1))
    high = bb.emit(R.maximum(bb.emit(R.max(data)), zero))
    low = bb.emit(R.minimum(bb.emit(R.min(data)), zero))
    span = bb.emit(R.divide(bb.emit(R.subtract(high, low)), steps))
    scale = bb.emit(R.where(bb.emit(R.equal(span, zero)), one, span))
    offset = bb.emit(R.round(bb.emit(R.divide(bb.emit(R.negative(low)), scale))))
    scaled = bb.emit(R.divide(data, scale))
    return [quantised(bb, scaled, offset, "uint8", attributes), scale, quantised(bb, offset, None, "uint8", attributes)]


def convert_q_linear_mat_mul(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """QLinearMatMul: an exact integer product, scaled and quantised again."""
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = inputs
    product = integer_product(bb, a, a_zero, b, b_zero)
    factor = _quotient_of_scales(bb, of_rows(bb, a_scale, a), b_scale, of_rows(bb, y_scale, a))
    scaled = bb.emit(R.multiply(bb.emit(R.astype(product, "float32")), kept_apart(factor, product)))
    shift = kept_apart(_cast(bb, of_rows(bb, y_zero, a), "float32"), product)
    return quantised(bb, scaled, shift, output_type(attributes), attributes)


def _quotient_of_scales(bb: relax.BlockBuilder, a: relax.Expr, b: relax.Expr, y: relax.Expr) -> relax.Expr:
    """``a · b / y`` in float32, of constants at once."""
    scales = [_cast(bb, scale, "float32") for scale in (a, b, y)]
    if all(isinstance(scale, relax.Constant) for scale in scales):
        first, second, third = (scale.data.numpy() for scale in scales)
        return relax.const(first * second / third)
    return bb.emit(R.divide(bb.emit(R.multiply(*scales[:2])), scales[2]))


def convert_mat_mul_integer(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """MatMulInteger: int32 sums of exact products."""
    return integer_product(bb, inputs[0], optional(inputs, 2), inputs[1], optional(inputs, 3))


def _aligned(bb: relax.BlockBuilder, value: relax.Expr, data: relax.Expr, axis: int, block: int) -> relax.Expr:
    """A scale or zero point so that it broadcasts against the data: one for all, one an axis entry, one a block."""
    rank = rank_of(data)
    if rank_of(value) == 0:
        return kept_apart(value, data)
    axis %= max(rank, 1)
    if block:
        repeated = bb.emit(R.repeat(value, block, axis))
        extent = extents_of(data)[axis]
        if extents_of(repeated)[axis] == extent:
            return repeated
        return bb.emit(R.strided_slice(repeated, [axis], [0], [extent]))
    if rank_of(value) > 1:
        raise ValueError("scales by block need a block size")
    extents = [1] * rank
    if extents_of(value) != (1,):
        (extents[axis],) = extents_of(value)
    return bb.emit(R.reshape(value, extents))


def _is_one(scale: relax.Expr) -> bool:
    return isinstance(scale, relax.Constant) and bool((scale.data.numpy() == 1).all())


def _unless_zero(zero: relax.Expr | None) -> relax.Expr | None:
    """A zero point; None where it is 0 throughout."""
    none = isinstance(zero, relax.Constant) and not zero.data.numpy().astype(np.float32).any()
    return None if none else zero


def _wide(dtype: str) -> str:
    return dtype if dtype == "float64" else "float32"


def _cast(bb: relax.BlockBuilder, value: relax.Expr, dtype: str) -> relax.Expr:
    """The value in a type, of a constant at once."""
    if dtype_of(value) == dtype:
        return value
    if isinstance(value, relax.Constant) and not dtype.startswith(("float8", "bfloat16")):
        return relax.const(value.data.numpy().astype(dtype))
    return bb.emit(R.astype(value, dtype))
