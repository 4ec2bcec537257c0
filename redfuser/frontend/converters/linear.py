"""Matrix products with wide accumulators."""

from __future__ import annotations

from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters.common import Attributes, Inputs, dtype_of, matmul, optional


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
