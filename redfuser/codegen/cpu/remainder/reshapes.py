"""Lets reshapes stand between a product and what is done with its elements. Imports TVM: import it lazily."""

from __future__ import annotations

import tvm
from tvm import relax, tirx

#: TVM's patterns: what stays in its place, what moves elements, and what folds them.
ELEMENTWISE, INJECTIVE, REDUCTION = 0, 2, 3


def in_place(module: tvm.IRModule) -> tvm.IRModule:
    """The module with reshapes marked as element-wise, since no element moves in memory, and sums of windows as moves.

    TVM's fusion ends a product at an operation that it takes to move elements, as Gemm's reshape to the shape of the
    tokens does; bias, activation and residual after it would go through memory. So would
    windows of bytes, which are many times the image, and their sums channel by channel.
    """
    updated = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and (pattern := _pattern(function)) is not None:
            updated.update_func(updated.get_global_var(variable.name_hint), function.with_attr("op_pattern", pattern))
    return updated


def _pattern(function: tirx.PrimFunc) -> int | None:
    """What a function is to be taken for; None for what TVM takes it for."""
    attributes = function.attrs
    pattern = attributes["op_pattern"] if attributes is not None and "op_pattern" in attributes else None
    if pattern == INJECTIVE and relax.analysis.has_reshape_pattern(function):
        return ELEMENTWISE
    return INJECTIVE if pattern == REDUCTION and _is_of_windows(function) else None


def _is_of_windows(function: tirx.PrimFunc) -> bool:
    """Whether whole numbers are summed over axes before the last one, the channels, which stays."""
    buffers = [function.buffer_map[p] for p in function.params if p in function.buffer_map]
    if len(buffers) != 2 or any(str(b.dtype) != "int32" or len(b.shape) < 2 for b in buffers):
        return False
    given, sums = (buffer.shape for buffer in buffers)
    return len(sums) < len(given) and isinstance(sums[-1], tirx.IntImm) and int(sums[-1]) == given[-1]
