"""From a tile program to one TIR function; see :mod:`redfuser.codegen.cpu.lowering.phases`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.bytes.panels import ROWS
from redfuser.codegen.cpu.bytes.products import ByteProducts, pitch, products_of, take_out
from redfuser.codegen.cpu.lowering.nests import BlockProduct
from redfuser.codegen.cpu.lowering.phases import PhaseWriter
from redfuser.codegen.cpu.lowering.uncached import uncached
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.access import rank
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.codegen.cpu.values.types import in_memory
from redfuser.expr import PAIR, Tensor
from redfuser.expr.binding import dims_in
from redfuser.extents import most
from redfuser.targets import CpuTarget
from redfuser.tile.ir import TileProgram

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimFunc


def generate(program: TileProgram, target: CpuTarget, packed: Collection[Tensor] = ()) -> PrimFunc:
    """The program as a scheduled function whose parameters are its inputs, its outputs, and its symbolic dimensions.

    Args:
        program: verified.
        target: decides vector width and instructions.
        packed: right factors of products of bytes that are passed packed, of those that
            :func:`redfuser.codegen.cpu.bytes.products.packable` gives.

    Raises:
        Refused: an operator or type has no code on this target.
    """
    from tvm.tirx import PrimFunc

    machine = Machine.of(target, program.schedule)
    program = take_out(program) if machine.multiplies_bytes else program
    products = products_of(program)
    parameters = (*program.inputs, *program.outputs)
    tensors = (*parameters, *program.workspaces)
    largest = max(most(tensor.size) for tensor in tensors)
    builder = Builder("int32" if largest < 1 << 31 else "int64", dims_in(program))
    factors = {product.left.tensor for product in products}
    sizes = {product.right.tensor: product.panels.size for product in products if product.right.tensor in packed}
    declared = {t: _declare(builder, replace(t, shape=(sizes[t],)) if t in sizes else t) for t in parameters}
    declared |= {tensor: _allocate(builder, tensor, tensor in factors) for tensor in program.workspaces}
    # TVM compacts what it allocates, and wants it accessed in the shape that it has.
    whole = factors | {product.right.tensor for product in products} | set(program.workspaces)
    arrays = {t: _view(builder, array, len(array.shape) if t in whole else rank(t)) for t, array in declared.items()}
    bytes_ = _byte_products(builder, products, arrays, machine, packed) if products else None
    for phase in program.phases:
        past = uncached(phase, program.phases, program.outputs, machine)
        normal = frozenset(program.normal)
        PhaseWriter(phase, program.schedule.lanes, builder, machine, arrays, bytes_, past, normal).write()
    attributes = {"global_symbol": program.name, "s_tir": True, "tirx.noalias": True, "tirx.is_scheduled": True}
    arguments = [*(declared[tensor] for tensor in parameters), *builder.parameters]
    return PrimFunc(arguments, builder.body()).with_attr(attributes)


def _declare(builder: Builder, tensor: Tensor) -> Array:
    from tvm.tirx import decl_buffer

    dtype = in_memory(tensor.dtype) if tensor.dtype == PAIR else tensor.dtype
    return decl_buffer(builder.shape(tensor.shape), dtype, builder.unique(tensor.name))


def _allocate(builder: Builder, tensor: Tensor, is_factor: bool) -> Array:
    """Memory for a workspace; rows of a factor of bytes are padded, and followed by some to fill a tile."""
    from tvm.tirx import AllocBuffer, DeclBuffer, decl_buffer

    if not is_factor:
        declared = _declare(builder, tensor)
        builder.emit(AllocBuffer(declared))
        return declared
    shape = (*tensor.shape[:-1], pitch(tensor))
    memory = builder.allocate(tensor.name, prod(shape) + (ROWS - 1) * pitch(tensor), tensor.dtype)
    view = decl_buffer(builder.shape(shape), tensor.dtype, builder.unique(tensor.name), data=memory.data)
    builder.emit(DeclBuffer(view))
    return view


def _byte_products(
    builder: Builder,
    products: Sequence[BlockProduct],
    arrays: Mapping[Tensor, Array],
    machine: Machine,
    packed: Collection[Tensor],
) -> ByteProducts:
    from tvm.tirx import DeclBuffer, IntImm, decl_buffer

    flat: dict[Tensor, Array] = {}
    pitches: dict[Tensor, int] = {}
    for tensor in (node.tensor for product in products for node in (product.left, product.right)):
        array = arrays[tensor]
        if tensor not in flat:
            size = prod(int(n) if isinstance(n, IntImm) else n for n in array.shape)
            flat[tensor] = decl_buffer((size,), tensor.dtype, builder.unique(f"{tensor.name}_flat"), data=array.data)
            pitches[tensor] = int(array.shape[-1])
            builder.emit(DeclBuffer(flat[tensor]))
    return ByteProducts.prepare(builder, products, flat, pitches, machine, packed)


def _view(builder: Builder, array: Array, dimensions: int) -> Array:
    """The array itself, or the same memory as the type it is accessed with, and with its first dimensions alone."""
    from tvm.tirx import DeclBuffer, decl_buffer

    dtype = in_memory(str(array.dtype))
    if dtype == str(array.dtype) and dimensions == len(array.shape):
        return array
    view = decl_buffer(array.shape[:dimensions], dtype, builder.unique(f"{array.name}_view"), data=array.data)
    builder.emit(DeclBuffer(view))
    return view
