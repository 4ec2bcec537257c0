"""Recurrent layers: a block of threads for every row of the batch, a thread or a few units each. Imports TVM lazily.

Rows are independent, so no block waits for another; within one, the hidden state lies in shared memory. Weights come
from the second-level cache in every step.
"""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.tirx.stmt_functor import ir_transform, substitute

from redfuser.recurrent.plain import LOOP, ROWS, UNITS
from redfuser.recurrent.recurrence import Recurrence

#: Threads of a block.
MOST_THREADS = 512


def share_out(recurrence: Recurrence, function: tirx.PrimFunc) -> tirx.PrimFunc:
    """:func:`redfuser.recurrent.plain.plain` with its marked loops shared out among blocks and threads."""
    threads = max(n for n in range(1, MOST_THREADS + 1) if recurrence.units % n == 0)

    def bind(node: tirx.For) -> tirx.Stmt | None:
        what = node.annotations.get(LOOP, "")
        if what == ROWS:
            return _bound(node.loop_var, node.extent, node.body, "blockIdx.x")
        if what == UNITS:
            return _shared_out(node, threads)
        return None

    shared = {buffer: _in_shared_memory(buffer) for buffer in function.body.block.alloc_buffers}
    body = ir_transform(function.body, None, bind, ["tirx.For"])
    body = _with_buffers(body, {old: new for old, new in shared.items() if new is not old})
    return function.with_body(body).with_attr("tirx.is_scheduled", True)


def _bound(variable: tirx.Var, extent: tirx.PrimExpr, body: tirx.Stmt, axis: str) -> tirx.For:
    zero = tirx.IntImm(variable.dtype, 0)
    thread = tirx.IterVar(tvm.ir.Range(zero, extent), tirx.Var(axis, variable.dtype), tirx.IterVar.ThreadIndex, axis)
    return tirx.For(variable, zero, extent, tirx.ForKind.THREAD_BINDING, body, thread)


def _shared_out(node: tirx.For, threads: int) -> tirx.Stmt:
    """A loop over units, each thread with every so many-th of them."""
    dtype = node.loop_var.dtype
    each, thread = tirx.Var("each", dtype), tirx.Var("thread", dtype)
    body = substitute(node.body, {node.loop_var: each * threads + thread})
    inner = _bound(thread, tirx.IntImm(dtype, threads), body, "threadIdx.x")
    zero, count = tirx.IntImm(dtype, 0), tirx.IntImm(dtype, int(node.extent) // threads)
    return tirx.For(each, zero, count, tirx.ForKind.SERIAL, inner)


def _in_shared_memory(buffer: tirx.Buffer) -> tirx.Buffer:
    """What all threads of a block see, there; what is a thread's own as it is."""
    if buffer.scope() == "local":
        return buffer
    return tirx.decl_buffer(buffer.shape, buffer.dtype, buffer.name, scope="shared")


def _with_buffers(body: tirx.SBlockRealize, replaced: dict[tirx.Buffer, tirx.Buffer]) -> tirx.SBlockRealize:
    def replace(node: tirx.BufferLoad | tirx.BufferStore) -> object:
        if node.buffer not in replaced:
            return None
        if isinstance(node, tirx.BufferLoad):
            return tirx.BufferLoad(replaced[node.buffer], node.indices)
        return tirx.BufferStore(replaced[node.buffer], node.value, node.indices)

    root = body.block
    inside = ir_transform(root.body, None, replace, ["tirx.BufferLoad", "tirx.BufferStore"])
    buffers = [replaced.get(buffer, buffer) for buffer in root.alloc_buffers]
    block = tirx.SBlock(root.iter_vars, root.reads, root.writes, root.name_hint, inside, root.init, buffers)
    return tirx.SBlockRealize(body.iter_values, body.predicate, block)
