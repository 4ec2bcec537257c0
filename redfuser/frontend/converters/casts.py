"""Casts to small integers."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax, te, tirx
from tvm.relax.frontend.onnx.onnx_frontend import get_type

from redfuser.frontend.converters.common import Attributes, Converter, Inputs, dtype_of

_FLOATS = frozenset({"float16", "float32", "float64"})
_SMALL = frozenset({"int8", "uint8", "int16", "uint16"})


def convert_small_cast(stock: Converter) -> Converter:
    """Cast; ``stock`` where nothing narrows to integers of few bits.

    TVM spells out the wrapping of integers in a dozen operators, some of them opaque to analysis.
    """

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
        value, target = inputs[0], get_type(attributes["to"])
        if not isinstance(value, relax.Var) or dtype_of(value) not in _FLOATS:
            return stock(bb, inputs, attributes)
        if target in _SMALL:
            return _elementwise(bb, value, lambda x: _to_small_integer(x, target))
        return stock(bb, inputs, attributes)

    return convert


def _elementwise(
    bb: relax.BlockBuilder, value: relax.Expr, element: Callable[[tirx.PrimExpr], tirx.PrimExpr]
) -> relax.Expr:
    def cast(tensor: te.Tensor) -> te.Tensor:
        return te.compute(tensor.shape, lambda *place: element(tensor(*place)), name="cast")

    return bb.emit_te(cast, value, primfunc_name_hint="cast")


def _to_small_integer(x: tirx.PrimExpr, target: str) -> tirx.PrimExpr:
    """The low bits of the integer part; 0 where that has more than 32, and for what isn't finite."""
    inside = tirx.Select(tirx.abs(x) < tirx.const(2.0**31, x.dtype), x, tirx.const(0, x.dtype))
    return inside.astype("int32").astype(target)
