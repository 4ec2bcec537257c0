"""Elementwise operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx, topi
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    HALF,
    Attributes,
    Converter,
    Inputs,
    cast,
    dtype_of,
    extents_of,
    optional,
    rank_of,
    widened,
)

#: Powers up to this one are products. Each factor may cost half a unit in the last place.
MOST_FACTORS = 16


def convert_clip(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Clip. NaN stays NaN (TVM's maximum would drop it); a bound that is NaN is none."""
    data, low, high = inputs[0], optional(inputs, 1), optional(inputs, 2)
    if any(extent != 1 for bound in (low, high) if bound is not None for extent in extents_of(bound)):
        raise ValueError("a bound has several elements")
    lowest, highest = _scalar(low), _scalar(high)
    if lowest is not None and highest is not None:
        return _clip_to_numbers(bb, data, lowest, highest)
    value = data
    if low is not None:
        value = bb.emit(R.where(bb.emit(R.less(value, low)), low, value))
    if high is not None:
        value = bb.emit(R.where(bb.emit(R.greater(value, high)), high, value))
    return value


def _scalar(bound: relax.Expr | None) -> float | None:
    """The value of a constant bound, NaN if there is no bound; None if it is known at run time only."""
    if bound is None:
        return math.nan
    return bound.data.numpy().reshape(-1)[0].item() if isinstance(bound, relax.Constant) else None


def _clip_to_numbers(bb: relax.BlockBuilder, data: relax.Expr, low: float, high: float) -> relax.Expr:
    dtype = dtype_of(data)
    low = min(low, high)  # the upper bound is applied last; min keeps ``low`` if ``high`` is NaN

    def clip(tensor: te.Tensor) -> te.Tensor:
        def element(*place: tirx.Var) -> tirx.PrimExpr:
            value = tensor(*place)
            clipped = value
            if not math.isnan(high):
                clipped = tirx.Select(value > tirx.const(high, dtype), tirx.const(high, dtype), clipped)
            if not math.isnan(low):
                clipped = tirx.Select(value < tirx.const(low, dtype), tirx.const(low, dtype), clipped)
            return clipped

        return te.compute(extents_of(data), element, name="clip")

    return bb.emit_te(clip, data, primfunc_name_hint="clip")


def _extremum(better: Callable[..., relax.Expr], integers: Callable[..., relax.Expr]) -> Converter:
    """Max or Min of any number of tensors, element by element; a NaN in one of them is handed on."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
        value, *others = inputs
        for other in others:
            if "float" not in dtype_of(value):
                value = bb.emit(integers(value, other))
                continue
            chosen = bb.emit(R.where(bb.emit(better(value, other)), value, other))
            value = bb.emit(R.where(bb.emit(R.isnan(value)), value, chosen))
        return value

    return convert


CONVERT_MAX = _extremum(R.greater_equal, R.maximum)
CONVERT_MIN = _extremum(R.less_equal, R.minimum)


def convert_is_inf(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """IsInf of either sign, or of one."""
    data = inputs[0]
    signs = {math.inf: attributes.get("detect_positive", 1), -math.inf: attributes.get("detect_negative", 1)}
    found = [bb.emit(R.equal(data, relax.const(value, dtype_of(data)))) for value, wanted in signs.items() if wanted]
    if not found:
        return R.full(extents_of(data), relax.const(False, "bool"), "bool")
    return found[0] if len(found) == 1 else R.logical_or(*found)


def convert_prelu(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """PRelu: ``slope·x`` below zero, with a slope that is broadcast to the data in whatever way."""
    data, slope = inputs[0], inputs[1]
    below = bb.emit(R.less(data, relax.const(0, dtype_of(data))))
    return R.where(below, bb.emit(R.multiply(slope, data)), data)


def convert_thresholded_relu(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """ThresholdedRelu: ``x`` above alpha, else 0, and so 0 for NaN."""
    data = inputs[0]
    above = bb.emit(R.greater(data, relax.const(attributes.get("alpha", 1.0), dtype_of(data))))
    return R.where(above, data, relax.const(0, dtype_of(data)))


def convert_equal(stock: Converter) -> Converter:
    """Equal; truth values are compared as bytes: LLVM's code generator would compare them as floating-point numbers."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Any:
        operands = [cast(bb, value, "int8") if dtype_of(value) == "bool" else value for value in inputs[:2]]
        return stock(bb, operands, attributes)

    return convert


def convert_pow(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Pow; the result has the base's type. Powers of integers go through float64, exact up to 2**53.

    Small constant powers are products: a square is exact, and all are faster than the C library's function.
    """
    base, exponent = inputs[0], inputs[1]
    dtype = dtype_of(base)
    number = _scalar(exponent) if all(extent == 1 for extent in extents_of(exponent)) else None
    if number is not None and number in range(2, MOST_FACTORS + 1) and rank_of(exponent) <= rank_of(base):
        return _product(bb, base, int(number))
    common = dtype if "float" in dtype else "float64"
    left, right = (
        value if dtype_of(value) == common else bb.emit(R.astype(value, common)) for value in (base, exponent)
    )
    power = widened(lambda _bb, operands, _: R.power(*operands))(bb, [left, right], attributes)
    return power if common == dtype else R.astype(bb.emit(R.round(bb.emit(power))), dtype)


def convert_mod(stock: Converter) -> Converter:
    """Mod: of floating-point numbers C's ``fmod``, which is exact; of integers TVM's converter."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr | Sequence[relax.Expr]:
        left, right = inputs[0], inputs[1]
        if "float" not in dtype_of(left) or not attributes.get("fmod", 0):
            return stock(bb, inputs, attributes)
        shape, dtype = list(bb.normalize(R.add(left, right)).struct_info.shape), dtype_of(left)
        function = {"float32": "fmodf", "float64": "fmod"}[dtype]  # tirx.fmod has no code on CPUs

        def remainder(a: te.Tensor, b: te.Tensor) -> te.Tensor:
            spread = [topi.broadcast_to(tensor, shape) for tensor in (a, b)]

            def element(*place: tirx.Var) -> tirx.PrimExpr:
                return tirx.call_pure_extern(dtype, function, *(tensor(*place) for tensor in spread))

            return te.compute(shape, element, name="fmod")

        return bb.emit_te(remainder, left, right, primfunc_name_hint="fmod")

    return convert


def convert_one_hot(stock: Converter) -> Converter:
    """OneHot: in the type of its values, of which TVM makes float32 or int64."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr | Sequence[relax.Expr]:
        return R.astype(bb.normalize(stock(bb, inputs, attributes)), dtype_of(inputs[2]))

    return convert


def _product(bb: relax.BlockBuilder, base: relax.Expr, factors: int) -> relax.Expr:
    """A power as a product of squares; of half precision in float32, but for squares and cubes."""
    if factors > 3 and dtype_of(base) in HALF:
        return R.astype(bb.emit(_product(bb, bb.emit(R.astype(base, "float32")), factors)), dtype_of(base))
    result = base
    for digit in f"{factors:b}"[1:]:
        square = bb.emit(R.multiply(result, result))
        result = bb.emit(R.multiply(square, base)) if digit == "1" else square
    return result
