"""Exact identities of reductions in legalised PrimFuncs. Imports TVM: import it lazily.

TVM starts a maximum at the least finite number. The maximum of a row of -inf is then wrong, and so is
whatever compares it with -inf. Of a reduction over no elements it never writes the result.
"""

from __future__ import annotations

import math

import tvm
from tvm import tirx
from tvm.tirx.stmt_functor import ir_transform


def start_at_infinity(module: tvm.IRModule) -> tvm.IRModule:
    """Start every maximum at -inf and every minimum at +inf. The module is changed in place, and returned."""
    for variable, function in list(module.functions_items()):
        if isinstance(function, tirx.PrimFunc):
            module[variable] = function.with_body(ir_transform(function.body, None, _rewrite_init, ["tirx.SBlock"]))
    return module


def fill_empty_reductions(module: tvm.IRModule) -> tvm.IRModule:
    """Write the identity where a reduction has no elements. The module is changed in place, and returned."""
    for variable, function in list(module.functions_items()):
        if isinstance(function, tirx.PrimFunc):
            module[variable] = function.with_body(_Fill().visit(function.body))
    return module


class _Fill:
    """Makes blocks that reduce over nothing blocks that write their start values, outside of loops of no iterations."""

    def __init__(self) -> None:
        self.gone: set[tirx.Var] = set()

    def visit(self, body: tirx.Stmt) -> tirx.Stmt:
        return ir_transform(body, None, self._rewrite, ["tirx.SBlockRealize", "tirx.For"])

    def _rewrite(self, node: tirx.Stmt) -> tirx.Stmt | None:
        if isinstance(node, tirx.For):
            return node.body if node.loop_var in self.gone else None
        block = node.block
        pairs = list(zip(block.iter_vars, node.iter_values, strict=True))
        if block.init is None or not any(_is_empty_reduction(each) for each in block.iter_vars):
            return None
        self.gone |= {value for each, value in pairs if each.iter_type == tirx.IterVar.CommReduce}
        kept = [(each, value) for each, value in pairs if each.iter_type != tirx.IterVar.CommReduce]
        filled = tirx.SBlock([each for each, _ in kept], [], block.writes, block.name_hint, block.init)
        return tirx.SBlockRealize([value for _, value in kept], node.predicate, filled)


def _is_empty_reduction(axis: tirx.IterVar) -> bool:
    extent = axis.dom.extent
    return axis.iter_type == tirx.IterVar.CommReduce and isinstance(extent, tirx.IntImm) and extent.value == 0


def _rewrite_init(block: tirx.SBlock) -> tirx.SBlock | None:
    """The block with exact start values; None to keep it."""
    if block.init is None:
        return None
    return tirx.SBlock(
        block.iter_vars,
        block.reads,
        block.writes,
        block.name_hint,
        block.body,
        ir_transform(block.init, None, _rewrite_store, ["tirx.BufferStore"]),
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
        block.span,
    )


def _rewrite_store(store: tirx.BufferStore) -> tirx.BufferStore | None:
    value = store.value
    if not isinstance(value, tirx.FloatImm):
        return None
    for limit, identity in ((tirx.min_value, -math.inf), (tirx.max_value, math.inf)):
        if value.value == limit(value.dtype).value:
            return tirx.BufferStore(store.buffer, tirx.const(identity, value.dtype), store.indices)
    return None
