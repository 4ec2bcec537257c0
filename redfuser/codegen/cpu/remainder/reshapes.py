"""Lets reshapes stand between a product and what is done with its elements. Imports TVM: import it lazily."""

from __future__ import annotations

import tvm
from tvm import relax, tirx

#: TVM's patterns: what stays in its place, and what moves elements.
ELEMENTWISE, INJECTIVE = 0, 2


def in_place(module: tvm.IRModule) -> tvm.IRModule:
    """The module with reshapes marked as element-wise: no element moves in memory.

    TVM's fusion ends a product at an operation that it takes to move elements, as Gemm's reshape to the shape of the
    tokens does; bias, activation and residual after it would go through memory.
    """
    updated = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc) and _is_reshape(function):
            updated.update_func(
                updated.get_global_var(variable.name_hint), function.with_attr("op_pattern", ELEMENTWISE)
            )
    return updated


def _is_reshape(function: tirx.PrimFunc) -> bool:
    attributes = function.attrs
    pattern = attributes["op_pattern"] if attributes is not None and "op_pattern" in attributes else None
    return pattern == INJECTIVE and relax.analysis.has_reshape_pattern(function)
