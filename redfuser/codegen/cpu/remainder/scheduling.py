"""Schedules every PrimFunc that ``main`` still calls. Imports TVM: import it lazily."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from redfuser.cascade.tir import NotExtractable, extract_primfunc
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.remainder.contraction import Contraction
from redfuser.codegen.cpu.remainder.flat import flat
from redfuser.codegen.cpu.remainder.gemm import write_product
from redfuser.codegen.cpu.remainder.groups import make_groups
from redfuser.codegen.cpu.remainder.kernel import Kernel
from redfuser.codegen.cpu.remainder.packing import Packing, plan_packing, repays
from redfuser.codegen.cpu.remainder.plan import Plan, is_constant, make_plan
from redfuser.codegen.cpu.remainder.programs import make_phase
from redfuser.codegen.cpu.remainder.tiling import choose_tiling
from redfuser.codegen.cpu.rewire import with_bindings
from redfuser.expr import Tensor, loads, walk
from redfuser.targets import CpuTarget

#: TVM has no vectors of these types in memory.
NOT_VECTORISED = frozenset({"bfloat16", "float8_e4m3fn", "float8_e5m2"})


@dataclass(frozen=True)
class Scheduled:
    """A PrimFunc after scheduling.

    Args:
        function: to be called instead.
        kind: how it is computed.
        plan: what it computes; None for what can't be read.
        packing: how the right factor of its product is passed; None if as before.
    """

    function: tvm.tirx.PrimFunc
    kind: str
    plan: Plan | None = None
    packing: Packing | None = None


def schedule_remainder(module: tvm.IRModule, target: CpuTarget) -> tuple[tvm.IRModule, dict[str, str]]:
    """Schedule the PrimFuncs of a module in which element-wise operations are fused already.

    Returns:
        The module, and how each of its PrimFuncs is computed: a name of :data:`KINDS`, or ``default`` for
        one loop nest a block, as lowered.
    """
    return _Scheduler(module, target).run()


class _Scheduler:
    def __init__(self, module: tvm.IRModule, target: CpuTarget) -> None:
        self.module = module
        self.machine = Machine.of(target)
        self.target = target
        self.builder = relax.BlockBuilder(tvm.IRModule(attrs=module.attrs))
        self.kinds: dict[str, str] = {}
        self.done: dict[tuple, tuple[tvm.ir.GlobalVar, Scheduled]] = {}
        self.packed: dict[tuple, relax.Constant] = {}

    def run(self) -> tuple[tvm.IRModule, dict[str, str]]:
        main = self.module["main"]
        bindings = [self._binding(b) for block in main.body.blocks for b in block.bindings]
        module = self.builder.get()
        module.update_func(tvm.ir.GlobalVar("main"), main)
        return with_bindings(module, bindings), self.kinds

    def _binding(self, binding: relax.Binding) -> relax.Binding:
        call = binding.value
        if not isinstance(call, relax.Call) or call.op != tvm.ir.Op.get("relax.call_tir"):
            return binding
        arguments = list(call.args[1].fields)
        variable, scheduled = self._schedule(call.args[0], arguments)
        if scheduled.packing is not None:
            arguments = self._pack(scheduled, arguments)
        updated = relax.Call(call.op, [variable, relax.Tuple(arguments)], call.attrs, call.sinfo_args)
        return relax.VarBinding(binding.var, updated)

    def _schedule(self, variable: tvm.ir.GlobalVar, arguments: list) -> tuple[tvm.ir.GlobalVar, Scheduled]:
        known = tuple(isinstance(a, relax.Constant) for a in arguments)
        function = self.module[variable].without_attr("global_symbol")
        key = (tvm_ffi.structural_hash(function), known)
        if key not in self.done:
            scheduled = self._new(function, known)
            name = self.builder.add_func(scheduled.function, variable.name_hint)
            self.kinds[name.name_hint] = scheduled.kind
            self.done[key] = name, scheduled
        return self.done[key]

    def _new(self, function: tvm.tirx.PrimFunc, known: tuple[bool, ...]) -> Scheduled:
        if function.attrs.get("tirx.is_scheduled", False):
            return Scheduled(function, "fused")
        try:
            fragment = extract_primfunc(function)
        except NotExtractable:
            return Scheduled(function, "default")
        types = {node.dtype for definition in fragment.definitions for node in walk(definition.body)}
        empty = any(tensor.size == 0 for tensor in fragment.parameters)
        if empty or types & NOT_VECTORISED:
            return Scheduled(function, "default")
        constants = [t for t, is_known in zip(fragment.parameters, known, strict=False) if is_known]
        plan = make_plan(fragment, constants)
        try:
            return self._write(plan, constants)
        except NotImplementedError:
            return Scheduled(function, "default", plan)

    def _write(self, plan: Plan, constants: list[Tensor]) -> Scheduled:
        """The function of a plan.

        Raises:
            NotImplementedError: an operator or type has no code.
        """
        parameters, workspaces, groups = list(plan.parameters), list(plan.workspaces), list(plan.groups)
        product, packing, known = plan.product, None, False
        if product is not None:
            tiling = choose_tiling(product, self.target)
            known = is_constant(product, constants) and len(loads(product.right)) == 1
            packing = plan_packing(product, tiling, "packed")
            if known:
                parameters[_place(product, parameters)] = packing.tensor
            elif repays(product, packing):
                workspaces.append(packing.tensor)
                filled = packing.definition()
                groups += make_groups([filled], frozenset({filled.tensor}))
            else:
                packing = None
        kernel = Kernel(self.machine, parameters, workspaces)
        for group in groups:
            kernel.write_phase(make_phase(group))
        if product is not None:
            write_product(kernel, product, tiling, packing)
        return Scheduled(kernel.finish(), plan.kind, plan, packing if known else None)

    def _pack(self, scheduled: Scheduled, arguments: list) -> list:
        """The arguments with the right factor packed."""
        assert scheduled.plan is not None and scheduled.plan.product is not None and scheduled.packing is not None
        product = scheduled.plan.product
        place = _place(product, scheduled.plan.parameters)
        key = (arguments[place], scheduled.packing)
        if key not in self.packed:
            contents = np.asarray(arguments[place].data.numpy()).reshape(-1)
            packed = scheduled.packing.pack({loads(product.right)[0].tensor: contents})
            self.packed[key] = relax.const(packed)
        return [self.packed[key] if n == place else a for n, a in enumerate(arguments)]


def _place(product: Contraction, parameters: Sequence[Tensor]) -> int:
    """Which parameter is the right factor."""
    (node,) = loads(product.right)
    return next(n for n, tensor in enumerate(parameters) if flat(tensor) == node.tensor)
