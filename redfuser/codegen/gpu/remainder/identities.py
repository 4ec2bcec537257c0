"""Maximum and minimum from infinity through passes that know them from finite numbers only. Imports TVM.

TVM spreads a maximum over threads only if it starts at the least finite number. So that is what scheduling sees, and
it becomes -inf again in the finished kernels. The model's own constants of that value must not change with it: they
are written as bits in the meantime, which is also what the kernel then computes them from.
"""

from __future__ import annotations

import math

import numpy as np
import tvm
from tvm import tirx
from tvm.tirx.stmt_functor import ir_transform

from redfuser.expr.evaluate import numpy_dtype

#: For each float type: NumPy's and TVM's name of integers of its size, CUDA's conversion from them.
BITS = {
    "bfloat16": ("uint16", "__ushort_as_bfloat16"),
    "float16": ("uint16", "__ushort_as_half"),
    "float32": ("int32", "__int_as_float"),
    "float64": ("int64", "__longlong_as_double"),
}


def start_finite(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The unscheduled function with finite start values, and every other constant of such a value as bits."""
    body = ir_transform(function.body, None, _hide, ["ir.FloatImm"])
    return function.with_body(ir_transform(body, None, _finite_init, ["tirx.SBlock"]))


def start_infinite(module: tvm.IRModule) -> tvm.IRModule:
    """Every remaining constant that is the least or largest finite number as infinity."""
    updated = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc):
            body = ir_transform(function.body, None, _to_infinity, ["ir.FloatImm"])
            updated.update_func(variable, function.with_body(body))
    return updated


def _limit(value: tirx.FloatImm) -> float:
    """-1 or 1 for the least or the largest finite number of a type, infinite for infinity, otherwise 0."""
    if value.dtype not in BITS:
        return 0
    if math.isinf(value.value):
        return float(value.value)
    largest = tirx.max_value(value.dtype).value
    return math.copysign(1, value.value) if abs(value.value) == largest else 0


def _hide(value: tirx.FloatImm) -> tirx.PrimExpr | None:
    return _bits(value.value, value.dtype) if abs(_limit(value)) == 1 else None


def _bits(value: float, dtype: str) -> tirx.PrimExpr:
    integer, convert = BITS[dtype]
    bits = int(np.array(value, numpy_dtype(dtype)).view(integer))
    return tirx.call_pure_extern(dtype, convert, tirx.IntImm(integer, bits))


def _finite_init(block: tirx.SBlock) -> tirx.SBlock | None:
    if block.init is None:
        return None
    init = ir_transform(block.init, None, _to_finite, ["ir.FloatImm"])
    rest = (block.body, init, block.alloc_buffers, block.match_buffers, block.annotations)
    return tirx.SBlock(block.iter_vars, block.reads, block.writes, block.name_hint, *rest)


def _to_finite(value: tirx.FloatImm) -> tirx.PrimExpr | None:
    limit = _limit(value)
    if not math.isinf(limit):
        return None
    return tirx.min_value(value.dtype) if limit < 0 else tirx.max_value(value.dtype)


def _to_infinity(value: tirx.FloatImm) -> tirx.PrimExpr | None:
    limit = _limit(value)
    if value.dtype == "bfloat16" and (limit or math.isnan(value.value)):
        # TVM writes what isn't finite in a way that isn't CUDA.
        return _bits(math.copysign(math.inf, limit) if limit else math.nan, value.dtype)
    return tirx.const(math.copysign(math.inf, limit), value.dtype) if abs(limit) == 1 else None
