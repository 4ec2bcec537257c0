"""From a tile program to one TIR function; see :mod:`redfuser.codegen.cpu.lowering.phases`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.binding import dims_in
from redfuser.codegen.cpu.lowering.phases import PhaseWriter
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.codegen.cpu.values.types import in_memory
from redfuser.expr import PAIR, Tensor
from redfuser.extents import most
from redfuser.targets import CpuTarget
from redfuser.tile.ir import TileProgram

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimFunc


def generate(program: TileProgram, target: CpuTarget) -> PrimFunc:
    """The program as a scheduled function whose parameters are its inputs, its outputs, and its symbolic dimensions.

    Args:
        program: verified.
        target: decides vector width and instructions.

    Raises:
        Refused: an operator or type has no code on this target.
    """
    from tvm.tirx import AllocBuffer, PrimFunc

    machine = Machine.of(target, program.schedule)
    parameters = (*program.inputs, *program.outputs)
    tensors = (*parameters, *program.workspaces)
    largest = max(most(tensor.size) for tensor in tensors)
    builder = Builder("int32" if largest < 1 << 31 else "int64", dims_in(program))
    declared = {tensor: _declare(builder, tensor) for tensor in tensors}
    for tensor in program.workspaces:
        builder.emit(AllocBuffer(declared[tensor]))
    arrays = {tensor: _view(builder, array) for tensor, array in declared.items()}
    for phase in program.phases:
        PhaseWriter(phase, program.schedule.lanes, builder, machine, arrays).write()
    attributes = {"global_symbol": program.name, "s_tir": True, "tirx.noalias": True, "tirx.is_scheduled": True}
    arguments = [*(declared[tensor] for tensor in parameters), *builder.parameters]
    return PrimFunc(arguments, builder.body()).with_attr(attributes)


def _declare(builder: Builder, tensor: Tensor) -> Array:
    from tvm.tirx import decl_buffer

    dtype = in_memory(tensor.dtype) if tensor.dtype == PAIR else tensor.dtype
    return decl_buffer(builder.shape(tensor.shape), dtype, builder.unique(tensor.name))


def _view(builder: Builder, array: Array) -> Array:
    """The array itself, or the same memory as the type it is accessed with."""
    from tvm.tirx import DeclBuffer, decl_buffer

    dtype = in_memory(str(array.dtype))
    if dtype == str(array.dtype):
        return array
    view = decl_buffer(array.shape, dtype, builder.unique(f"{array.name}_bits"), data=array.data)
    builder.emit(DeclBuffer(view))
    return view
