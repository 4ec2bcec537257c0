"""Quantisation whose stock converter divides by zero."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters.common import Attributes, Inputs


def convert_dynamic_quantize(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Sequence[relax.Expr]:
    """DynamicQuantizeLinear to uint8; data that is zero throughout gets scale 1, as in ONNX Runtime."""
    data = inputs[0]
    zero, steps, one = (relax.const(value, "float32") for value in (0, 255, 1))
    high = bb.emit(R.maximum(bb.emit(R.max(data)), zero))
    low = bb.emit(R.minimum(bb.emit(R.min(data)), zero))
    span = bb.emit(R.divide(bb.emit(R.subtract(high, low)), steps))
    scale = bb.emit(R.where(bb.emit(R.equal(span, zero)), one, span))
    offset = bb.emit(R.round(bb.emit(R.divide(bb.emit(R.negative(low)), scale))))
    quantised = bb.emit(R.add(bb.emit(R.round(bb.emit(R.divide(data, scale)))), offset))
    return [_as_byte(bb, quantised), scale, _as_byte(bb, offset)]


def _as_byte(bb: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    low = bb.emit(R.maximum(value, relax.const(0, "float32")))
    return R.astype(bb.emit(R.minimum(low, relax.const(255, "float32"))), "uint8")
