"""Exact identities of maximum and minimum in legalised PrimFuncs. Imports TVM: import it lazily.

TVM starts a maximum at the least finite number. The maximum of a row of -inf is then wrong, and so is
whatever compares it with -inf.
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
