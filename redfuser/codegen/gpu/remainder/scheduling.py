"""Schedules every PrimFunc that ``main`` calls, for a GPU. Imports TVM: import it lazily."""

from __future__ import annotations

import tvm
from tvm import s_tir, tirx
from tvm.s_tir import dlight

from redfuser.codegen.gpu.remainder.accumulation import accumulate_wide
from redfuser.codegen.gpu.remainder.identities import start_finite
from redfuser.codegen.gpu.remainder.recurrent import share_out
from redfuser.codegen.gpu.remainder.rows import Rows
from redfuser.codegen.refusal import FAILURES
from redfuser.recurrent.recurrence import recurrence_of


def schedule_remainder(module: tvm.IRModule, machine: tvm.target.Target) -> tuple[tvm.IRModule, dict[str, str]]:
    """Schedule the PrimFuncs of a module in which element-wise operations are fused already.

    Args:
        machine: TVM's target, without the suffix of ``sm_90a``: with it, TVM's rules see no tensor cores.

    Returns:
        The module, and how each of its PrimFuncs is computed: ``matmul``, ``gemv``, ``reduction``,
        ``rows``, ``general-reduction``, ``fallback`` (a thread a point), ``recurrent`` or ``one-thread``.
    """
    updated = tvm.IRModule(dict(module.functions_items()), attrs=module.attrs)
    kinds: dict[str, str] = {}
    for variable, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc):
            kinds[variable.name_hint], scheduled = schedule_function(function, machine)
            updated.update_func(variable, scheduled)
    return updated, dict(sorted(kinds.items()))


def schedule_function(function: tirx.PrimFunc, machine: tvm.target.Target) -> tuple[str, tirx.PrimFunc]:
    """The first rule's schedule that binds everything to threads, and that rule's name."""
    recurrence = recurrence_of(function)
    if recurrence is not None:
        return "recurrent", share_out(recurrence, function)
    rules = {
        "matmul": dlight.gpu.Matmul(),
        "gemv": dlight.gpu.GEMV(),
        "reduction": dlight.gpu.Reduction(),
        "rows": Rows(),
        "general-reduction": dlight.gpu.GeneralReduction(),
        "fallback": dlight.gpu.Fallback(),
    }
    *_, output = (function.buffer_map[p] for p in function.params if p in function.buffer_map)
    if all(isinstance(extent, tirx.IntImm) and extent.value == 1 for extent in output.shape):
        del rules["general-reduction"]  # it would launch a kernel for every point
    wide = start_finite(accumulate_wide(function))
    for name, rule in rules.items():
        scheduled = _apply(rule, wide, machine)
        if scheduled is not None:
            return name, scheduled.with_attr("tirx.is_scheduled", True)
    return "one-thread", _one_thread(wide)


def _apply(rule: dlight.ScheduleRule, function: tirx.PrimFunc, machine: tvm.target.Target) -> tirx.PrimFunc | None:
    with machine:
        try:
            found = rule.apply(function, machine, False)
        except FAILURES:
            return None
    if isinstance(found, list):
        found = found[0] if found else None
    return found.mod["main"] if isinstance(found, s_tir.Schedule) else None


def _one_thread(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function as lowered, run by a single thread: slow, and always possible."""
    root = function.body.block
    body = root.body
    for axis in ("threadIdx.x", "blockIdx.x"):
        zero, one = tirx.IntImm("int32", 0), tirx.IntImm("int32", 1)
        thread = tirx.IterVar(tvm.ir.Range(0, 1), tirx.Var(axis, "int32"), tirx.IterVar.ThreadIndex, axis)
        variable = tirx.Var(axis.replace(".", "_"), "int32")
        body = tirx.For(variable, zero, one, tirx.ForKind.THREAD_BINDING, body, thread)
    block = tirx.SBlock(root.iter_vars, root.reads, root.writes, root.name_hint, body, root.init, root.alloc_buffers)
    realize = tirx.SBlockRealize(function.body.iter_values, function.body.predicate, block)
    return function.with_body(realize).with_attr("tirx.is_scheduled", True)
