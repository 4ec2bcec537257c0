"""Results without elements, which no kernel has to compute. Imports TVM: import it lazily."""

from __future__ import annotations

import tvm
from tvm import relax, tirx, topi

from redfuser.codegen.rewire import with_bindings


def compute_nothing(module: tvm.IRModule) -> tvm.IRModule:
    """The module with calls whose only result has no elements reading nothing.

    TVM looks for reshapes among kernels of two arrays or more, and divides by the extents of the first.

    Args:
        module: ``main`` has one dataflow block.
    """
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    places = [place for place, binding in enumerate(bindings) if _is_empty(binding)]
    if not places:
        return module
    builder = relax.BlockBuilder(module)
    for place in places:
        variable = bindings[place].var
        info = variable.struct_info
        call = builder.call_te(topi.full, list(info.shape), info.dtype, 0, primfunc_name_hint="nothing")
        bindings[place] = relax.VarBinding(variable, call)
    return relax.transform.DeadCodeElimination()(with_bindings(builder.get(), bindings))


def _is_empty(binding: relax.Binding) -> bool:
    """Whether a kernel is called for what is known to have no elements."""
    value, info = binding.value, binding.var.struct_info
    is_call = isinstance(value, relax.Call) and value.op == tvm.ir.Op.get("relax.call_tir")
    if not is_call or not isinstance(info, relax.TensorStructInfo):
        return False
    return any(isinstance(extent, tirx.IntImm) and not extent.value for extent in info.shape)
