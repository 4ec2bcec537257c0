"""Non-temporal stores: whole vectors written past the caches, without reading the lines they overwrite first.

TVM has no such store, but LLVM has one for every vector type: a function in LLVM's own language for each, which is
inlined where it is called. They are ordered with nothing that follows but a fence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.machine import LINE_BYTES
from redfuser.codegen.cpu.values.builder import Builder, lanes_of, scalar_dtype
from redfuser.expr.evaluate import numpy_dtype

if TYPE_CHECKING:
    from tvm.tirx import Buffer, PrimExpr, Stmt

#: The narrowest vector that x86-64 has such a store of.
LEAST_BYTES = 16

#: TVM packs booleans, and LLVM stores halves the usual way on most processors.
WITHOUT = ("bool", "float16")


def storable(dtype: str, lanes: int) -> bool:
    """Whether there is such a store of a vector; it begins at a multiple of its size, or at a line as results do."""
    size = lanes * numpy_dtype(dtype).itemsize
    return dtype not in WITHOUT and size >= LEAST_BYTES and size & (size - 1) == 0


def store(builder: Builder, array: Buffer, where: Sequence[PrimExpr], value: PrimExpr) -> None:
    """``array[where] = value``.

    Args:
        where: the last index is a ramp of ``value``'s width, the others are scalars.
        value: of a :func:`storable` type.
    """
    from tvm.tirx import BufferLoad, Evaluate, address_of, call_extern

    first = BufferLoad(array, [*where[:-1], where[-1].base])
    name = f"redfuser_nontemporal_{value.dtype}"
    builder.define(name, _definition(name, value))
    builder.emit(Evaluate(call_extern("void", name, address_of(first), value)))


def fenced(loop: Stmt) -> Stmt:
    """A parallel loop, each of whose threads ends with a fence; or a serial one with a fence after it."""
    from tvm.tirx import AttrStmt, Evaluate, For, ForKind, SeqStmt, StringImm, call_llvm_intrin, const

    body = SeqStmt([loop, Evaluate(call_llvm_intrin("void", "llvm.x86.sse.sfence"))])
    if not isinstance(loop, For) or loop.kind != ForKind.PARALLEL:
        return body
    return AttrStmt(StringImm("fenced"), "pragma_parallel_launch_point", const(True), body)


def _definition(name: str, value: PrimExpr) -> str:
    """One store in LLVM's language."""
    dtype, lanes = scalar_dtype(value), lanes_of(value)
    size = numpy_dtype(dtype).itemsize
    element = {"float32": "float", "float64": "double"}.get(dtype, f"i{8 * size}")
    vector = f"<{lanes} x {element}>"
    return f"""define void @{name}(ptr %place, {vector} %value) alwaysinline {{
  store {vector} %value, ptr %place, align {min(lanes * size, LINE_BYTES)}, !nontemporal !{{i32 1}}
  ret void
}}
"""
