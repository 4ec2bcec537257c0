"""Schedules one PrimFunc. Imports TVM: import it lazily."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm

from redfuser.cascade.reading.tir import NotExtractable, extract_primfunc
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.remainder.flat import flat
from redfuser.codegen.cpu.remainder.groups import make_groups
from redfuser.codegen.cpu.remainder.kernel import Kernel
from redfuser.codegen.cpu.remainder.plan import Plan, is_constant, make_plan
from redfuser.codegen.cpu.remainder.products.channels import ChannelPacking
from redfuser.codegen.cpu.remainder.products.channelwise import pack_channels, write_channels
from redfuser.codegen.cpu.remainder.products.codes.coding import Coding, find_coding
from redfuser.codegen.cpu.remainder.products.codes.few_rows import coded_tiling
from redfuser.codegen.cpu.remainder.products.codes.packing import CodedPacking, is_codable, plan_coding
from redfuser.codegen.cpu.remainder.products.contraction import Contraction
from redfuser.codegen.cpu.remainder.products.gemm import write_product
from redfuser.codegen.cpu.remainder.products.integer import BytePacking, recognise_bytes, write_byte_product
from redfuser.codegen.cpu.remainder.products.packing import Packing, plan_packing, repays
from redfuser.codegen.cpu.remainder.products.paired import PAIR, multiplies_pairs
from redfuser.codegen.cpu.remainder.products.tiling import Tiling, choose_tiling
from redfuser.codegen.cpu.remainder.programs import make_phase
from redfuser.codegen.cpu.remainder.recurrent.write import write_recurrence
from redfuser.codegen.refusal import FAILURES
from redfuser.expr import loads
from redfuser.extents import Dim, Extent, dims_of
from redfuser.recurrent.recurrence import recurrence_of
from redfuser.targets import CpuTarget


@dataclass(frozen=True)
class Scheduled:
    """A PrimFunc after scheduling.

    Args:
        function: to be called instead.
        kind: ``product``, ``reduction``, ``elementwise``, ``recurrent``, ``fused`` for a kernel that was finished
            before, or ``default`` for one loop nest a block, as lowered.
        dims: names of the symbolic dimensions that the function takes after its tensors; None to pass what was passed.
        factor: which argument is to be packed before it is passed, if any.
        packing: how.
    """

    function: tvm.tirx.PrimFunc
    kind: str
    dims: tuple[str, ...] | None = None
    factor: int | None = None
    packing: Packing | CodedPacking | BytePacking | ChannelPacking | None = None

    def coding(self, contents: np.ndarray) -> Coding | None:
        """How the argument that is passed packed can be coded besides, without a loss."""
        if not isinstance(self.packing, Packing) or not is_codable(self.packing):
            return None
        (node,) = loads(self.packing.value)
        return find_coding(self.packing.matrices({node.tensor: contents.reshape(-1)})[0])

    def pack(self, contents: np.ndarray) -> np.ndarray:
        """The packed form of the argument that is passed packed."""
        assert self.packing is not None
        (node,) = loads(self.packing.value)
        return self.packing.pack({node.tensor: contents.reshape(-1)})


def schedule_function(
    function: tvm.tirx.PrimFunc,
    known: Sequence[bool],
    target: CpuTarget,
    sizes: Mapping[Any, Extent] | None = None,
    coding: Coding | None = None,
    small: Sequence[bool] = (),
) -> Scheduled:
    """Schedule a function of a legalised and fused module.

    Args:
        known: for each input, whether its contents are known now.
        sizes: what the function's variables for sizes stand for.
        coding: of the argument that is passed packed, which it was found to have.
        small: for each input, whether it is known to hold numbers of 8 bits with a sign.
    """
    if function.attrs.get("tirx.is_scheduled", False):
        return Scheduled(function, "fused")
    try:
        recurrence = recurrence_of(function)
        if recurrence is not None:
            return Scheduled(write_recurrence(recurrence, function, Machine.of(target)), "recurrent")
        plan = _plan(function, known, sizes or {}, small if target.multiplies_bytes else ())
        if plan is None:
            return Scheduled(function, "default")
        return _write(plan, known, target, dims_of((sizes or {}).values()), coding)
    except FAILURES:
        return Scheduled(function, "default")


def _plan(
    function: tvm.tirx.PrimFunc, known: Sequence[bool], sizes: Mapping[Any, Extent], small: Sequence[bool]
) -> Plan | None:
    """What the function computes; None for what can't be read or has no code."""
    try:
        fragment = extract_primfunc(function, sizes)
    except NotExtractable:
        return None
    if any(tensor.size == 0 for tensor in fragment.parameters):
        return None
    constants, weights = (
        [t for t, is_so in zip(fragment.parameters, each, strict=False) if is_so] for each in (known, small)
    )
    return make_plan(fragment, constants, weights)


def _write(
    plan: Plan, known: Sequence[bool], target: CpuTarget, dims: Sequence[Dim], coding: Coding | None
) -> Scheduled:
    parameters, workspaces, groups = list(plan.parameters), list(plan.workspaces), list(plan.groups)
    product, factor = plan.product, None
    packing: Packing | CodedPacking | BytePacking | ChannelPacking | None = None
    integer = None
    if plan.channels is not None:
        packing = pack_channels(plan.channels, target)
        factor = [flat(tensor) for tensor in parameters].index(plan.channels.weight.tensor)
        parameters[factor] = packing.tensor
    if product is not None:
        tiling = choose_tiling(product, target)
        if coding is not None:
            tiling = coded_tiling(tiling, product.row.extent)
        constants = [t for t, is_known in zip(parameters, known, strict=False) if is_known]
        known_now = is_constant(product, constants) and len(loads(product.right)) == 1
        integer = recognise_bytes(product, target, known_now)
        packing = integer.packing if integer is not None else _packing(product, tiling, known_now, target, coding)
        if known_now:
            factor = [flat(tensor) for tensor in parameters].index(loads(product.right)[0].tensor)
            parameters[factor] = packing.tensor
        elif isinstance(packing, Packing) and repays(product, packing):
            filled = packing.definition()
            groups += make_groups([filled], frozenset({filled.tensor}))
            workspaces.append(packing.tensor)
        else:
            packing = None
    kernel = Kernel(Machine.of(target), parameters, workspaces, dims)
    # A product reads what comes before it.
    kernel.write_phases(
        [make_phase(group) for group in groups], [flat(t) for t in parameters] if plan.kind != "product" else ()
    )
    if plan.channels is not None:
        assert isinstance(packing, ChannelPacking)
        write_channels(kernel, plan.channels, packing, target)
        kernel.write_phases([make_phase(group) for group in plan.after], [flat(t) for t in parameters])
    elif integer is not None:
        write_byte_product(kernel, integer, target, factor is not None)
    elif product is not None:
        assert not isinstance(packing, BytePacking | ChannelPacking)
        write_product(kernel, product, tiling, packing)
    names = tuple(dim.name for dim in dims)
    return Scheduled(kernel.finish(), plan.kind, names, factor, packing if factor is not None else None)


def _packing(
    product: Contraction, tiling: Tiling, known_now: bool, target: CpuTarget, coding: Coding | None
) -> Packing | CodedPacking:
    """How the right factor would lie in memory."""
    together = PAIR if known_now and multiplies_pairs(product, tiling, target) else 1
    plain = plan_packing(product, tiling, "packed", known_now, together)
    return plain if coding is None else plan_coding(plain, coding)


def builds(function: tvm.tirx.PrimFunc, llvm: Any) -> bool:
    """Whether TVM can compile a function."""
    try:
        tvm.compile(tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target=llvm)
    except FAILURES:
        return False
    return True
