"""Functions that need sizes which no tensor that they read has. Imports TVM: import it lazily."""

from __future__ import annotations

import tvm
from tvm import relax, tirx


def keep_sources_apart(module: tvm.IRModule) -> tvm.IRModule:
    """The module with such functions marked as opaque.

    TVM's fusion hands on only the sizes that occur in the shapes of a function's inputs; what a range or a size as a
    number needs would be lost.
    """
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if not isinstance(value, relax.Call) or value.op != tvm.ir.Op.get("relax.call_tir"):
                continue
            if _sizes_of(binding.var.struct_info, *value.args[2:]) - _sizes_of(*value.args[1].fields):
                variable = value.args[0]
                module.update_func(variable, module[variable].with_attr("op_pattern", 8))
    return module


def _sizes_of(*values: object) -> set[tirx.Var]:
    """Variables that a struct info, or a shape, is made of."""
    found: set[tirx.Var] = set()
    for value in values:
        info = value.struct_info if isinstance(value, relax.Expr) else value
        if isinstance(info, relax.TupleStructInfo):
            found |= _sizes_of(*info.fields)
        elif isinstance(info, relax.ShapeStructInfo):
            found |= {v for extent in info.values for v in tirx.analysis.undefined_vars(extent)}
        elif isinstance(info, relax.TensorStructInfo) and info.shape is not None:
            found |= {v for extent in info.shape for v in tirx.analysis.undefined_vars(extent)}
    return found
