"""Matrix products with wide accumulators, and Reshape by ONNX's rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import relax, tirx
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    Attributes,
    Inputs,
    constant,
    dtype_of,
    extents_of,
    matmul,
    optional,
)


def convert_mat_mul(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """MatMul."""
    return matmul(bb, inputs[0], inputs[1])


def convert_gemm(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Gemm: ``alpha·A·B + beta·C``."""
    a, b, c = inputs[0], inputs[1], optional(inputs, 2)
    if attributes.get("transA", 0):
        a = bb.emit(R.permute_dims(a, [1, 0]))
    if attributes.get("transB", 0):
        b = bb.emit(R.permute_dims(b, [1, 0]))
    dtype = dtype_of(a)
    product = _scaled(bb, matmul(bb, a, b), attributes.get("alpha", 1.0), dtype)
    if c is None or attributes.get("beta", 1.0) == 0:
        return product
    return R.add(product, _scaled(bb, c, attributes.get("beta", 1.0), dtype))


def _scaled(bb: relax.BlockBuilder, value: relax.Expr, factor: float, dtype: str) -> relax.Expr:
    return value if factor == 1 else bb.emit(R.multiply(value, relax.const(factor, dtype)))


def convert_reshape(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Reshape to a known shape: 0 keeps an extent (unless ``allowzero``), -1 is what remains."""
    data = inputs[0]
    shape = extents_of(data)
    target = _target(inputs[1])
    if not attributes.get("allowzero", 0):
        target = [shape[place] if _is(extent, 0) else extent for place, extent in enumerate(target)]
    if any(_is(extent, -1) for extent in target):
        place = next(place for place, extent in enumerate(target) if _is(extent, -1))
        target[place] = _quotient(shape, target[:place] + target[place + 1 :])
    return R.zeros(target, dtype_of(data)) if any(_is(n, 0) for n in target) else R.reshape(data, target)


def _target(shape: relax.Expr | None) -> list[Any]:
    """Extents asked for: integers, and ``tirx`` expressions where they are known on the call only."""
    if isinstance(shape, relax.ShapeExpr):
        return [int(n) if isinstance(n, tirx.IntImm) else n for n in shape.values]
    return [int(extent) for extent in constant(shape, "shape")]


def _is(extent: Any, value: int) -> bool:
    return isinstance(extent, int) and extent == value


def _quotient(above: Sequence[Any], below: Sequence[Any]) -> Any:
    """Product of some extents by that of others, symbolic ones that occur in both cancelled."""
    rest = list(above)
    divisors = []
    for extent in below:
        same = next((n for n in rest if not isinstance(n, int) and tvm_ffi.structural_equal(n, extent)), None)
        if same is None:
            divisors.append(extent)
        else:
            rest.remove(same)
    total, known = math.prod(rest), math.prod(divisors)
    if isinstance(total, int) and isinstance(known, int):
        return total // max(known, 1)
    if all(isinstance(n, int) for n in divisors):  # a static part that divides keeps the rest a product
        static = math.prod(n for n in rest if isinstance(n, int))
        if static % max(known, 1) == 0:
            return math.prod((n for n in rest if not isinstance(n, int)), start=static // max(known, 1))
    return tirx.floordiv(total, known)
