"""Marks that TVM's builders leave in PrimFuncs and its code generators don't know. Imports TVM: import it lazily."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.tirx.stmt_functor import ir_transform

#: Set where a builder joins several statements; LLVM's code generator would warn of it.
SEQUENCE = "pragma_scope"


def drop_marks(module: tvm.IRModule) -> tvm.IRModule:
    """Put what such a mark holds in its place. The module is changed in place, and returned."""
    for variable, function in list(module.functions_items()):
        if isinstance(function, tirx.PrimFunc):
            module[variable] = function.with_body(ir_transform(function.body, None, _unmark, ["tirx.AttrStmt"]))
    return module


def _unmark(node: tirx.AttrStmt) -> tirx.Stmt | None:
    return node.body if node.attr_key == SEQUENCE else None
