"""Products of quantised matrices, of which the sums stay a product of bytes: zero points are taken off them afterwards.

``Σ (a - za)·(b - zb) = Σ a·b - za·Σ b - zb·Σ a + n·za·zb``, exact in int32 as far as the result is.
"""

from __future__ import annotations

import numpy as np
from tvm import relax, te
from tvm.relax import op as R

from redfuser.frontend.converters.common import dtype_of, extents_of, rank_of


def integer_product(
    bb: relax.BlockBuilder, a: relax.Expr, a_zero: relax.Expr | None, b: relax.Expr, b_zero: relax.Expr | None
) -> relax.Expr:
    """The matrix product of ``a - a_zero`` and ``b - b_zero`` in int32.

    Args:
        a_zero: one for all, or one for each row.
        b_zero: one for all, or one for each column.
    """
    known = all(isinstance(n, int) for n in (extents_of(a)[-1], *extents_of(b)))
    if not known or rank_of(a) < 2 or rank_of(b) != 2 or extents_of(a)[-1] == 0:
        left, right = (_less_zero(bb, *item) for item in ((a, a_zero, True), (b, b_zero, False)))
        return bb.emit(R.matmul(left, right, out_dtype="int32"))
    depth = int(extents_of(a)[-1])
    result = bb.emit_te(_sums, a, b, primfunc_name_hint="matmul")
    left, right = _offset(bb, a_zero, a, True), _offset(bb, b_zero, b, False)
    if left is not None:
        result = bb.emit(R.subtract(result, _times(bb, left, _total(bb, b, -2))))
    if right is not None:
        result = bb.emit(R.subtract(result, _times(bb, _total(bb, a, -1), right)))
    if left is not None and right is not None:
        both = _times(bb, _times(bb, left, right), relax.const(depth, "int32"))
        result = bb.emit(R.add(result, kept_apart(both, result)))
    return result


def kept_apart(value: relax.Expr, beside: relax.Expr) -> relax.Expr:
    """A constant scalar as a tensor of one element, any other value, and any beside a scalar, as it is.

    A scalar is written into the code; a tensor is handed to it. Scales and zero points differ from layer to layer:
    kept apart, layers that are equal otherwise share their kernels.
    """
    if isinstance(value, relax.Constant) and rank_of(value) == 0 and rank_of(beside):
        return relax.const(value.data.numpy().reshape(1))
    return value


def _times(bb: relax.BlockBuilder, a: relax.Expr, b: relax.Expr) -> relax.Expr:
    """The product in int32, of constants at once."""
    if isinstance(a, relax.Constant) and isinstance(b, relax.Constant):
        return relax.const(np.asarray(a.data.numpy() * b.data.numpy(), np.int32))
    return bb.emit(R.multiply(kept_apart(a, b), kept_apart(b, a)))


def of_rows(bb: relax.BlockBuilder, value: relax.Expr, data: relax.Expr) -> relax.Expr:
    """A vector with an entry for each row as a column; anything else as it is."""
    is_vector = rank_of(value) == 1 and rank_of(data) > 1 and extents_of(value) != (1,)
    return bb.emit(R.expand_dims(value, -1)) if is_vector else value


def _sums(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """``Σ int32(a)·int32(b)``; the operator would want factors of one type, and so widen them before."""
    k = te.reduce_axis((0, a.shape[-1]), "k")

    def element(*where: te.Var) -> te.PrimExpr:
        *row, column = where
        return te.sum(a[(*row, k)].astype("int32") * b[k, column].astype("int32"), axis=k)

    return te.compute((*a.shape[:-1], b.shape[1]), element, name="matmul")


def _offset(bb: relax.BlockBuilder, zero: relax.Expr | None, data: relax.Expr, rows: bool) -> relax.Expr | None:
    """A zero point in int32; None where it is zero."""
    if zero is None or (isinstance(zero, relax.Constant) and not zero.data.numpy().any()):
        return None
    wide = _wide(bb, zero)
    return of_rows(bb, wide, data) if rows else wide


def _total(bb: relax.BlockBuilder, data: relax.Expr, axis: int) -> relax.Expr:
    """Sums along an axis, which stays; of a constant at once."""
    if isinstance(data, relax.Constant):
        return relax.const(data.data.numpy().sum(axis, dtype=np.int32, keepdims=True))
    return bb.emit(R.sum(_wide(bb, data), axis=[axis], keepdims=True))


def _less_zero(bb: relax.BlockBuilder, data: relax.Expr, zero: relax.Expr | None, rows: bool) -> relax.Expr:
    """A factor less its zero point, element by element."""
    offset = _offset(bb, zero, data, rows)
    value = _wide(bb, data)
    return value if offset is None else bb.emit(R.subtract(value, kept_apart(offset, value)))


def _wide(bb: relax.BlockBuilder, value: relax.Expr) -> relax.Expr:
    """Elements in int32."""
    if isinstance(value, relax.Constant):
        return relax.const(value.data.numpy().astype(np.int32))
    return value if dtype_of(value) == "int32" else bb.emit(R.astype(value, "int32"))
