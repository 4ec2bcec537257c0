"""Functions that make a tensor out of sizes alone. Imports TVM: import it lazily."""

from __future__ import annotations

from collections.abc import Iterable

import tvm
from tvm import relax, tirx


def keep_sources_apart(module: tvm.IRModule) -> tvm.IRModule:
    """The module with such functions marked as opaque.

    TVM's fusion hands on only the sizes that the shapes of a function's inputs give; what a range or a size as a number
    needs would be lost.
    """
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if not isinstance(value, relax.Call) or value.op != tvm.ir.Op.get("relax.call_tir"):
                continue
            if _sizes_of(binding.var.struct_info, *value.args[2:]) - _given(value.args[1].fields):
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


def _given(arguments: Iterable[relax.Expr]) -> set[tirx.Var]:
    """Variables that are an extent of some argument."""
    shapes = [a.struct_info.shape for a in arguments if isinstance(a.struct_info, relax.TensorStructInfo)]
    return {extent for shape in shapes for extent in shape if isinstance(extent, tirx.Var)}
