"""Kernels that read and write arrays wherever they lie. Imports TVM: import it lazily."""

from __future__ import annotations

import tvm
from tvm import tirx


def any_alignment(module: tvm.IRModule) -> tvm.IRModule:
    """Every PrimFunc with parameters of which nothing is known but that their elements are aligned.

    TVM takes arguments to begin at multiples of 64 bytes, and its vectors fault on others, such as NumPy's: these
    would have to be copied first. Instructions that don't ask for alignment cost nothing where there is some.
    """
    updated = {variable: _relaxed(function) for variable, function in module.functions_items()}
    return tvm.IRModule(updated, attrs=module.attrs)


def _relaxed(function: tvm.ir.BaseFunc) -> tvm.ir.BaseFunc:
    if not isinstance(function, tirx.PrimFunc):
        return function
    parameters = {}
    body = function.body
    for variable, buffer in function.buffer_map.items():
        parameters[variable] = tirx.decl_buffer(
            buffer.shape,
            buffer.dtype,
            buffer.name,
            buffer.data,
            buffer.strides,
            buffer.elem_offset,
            buffer.scope(),
            max(1, tvm.DataType(buffer.dtype).bits // 8),
        )
        body = tirx.SeqStmt([tirx.DeclBuffer(buffer), body])
    return tirx.PrimFunc(function.params, body, function.ret_type, parameters, function.attrs)
