"""Casts to and from 8-bit floats, bit by bit. Imports TVM: import it lazily.

TVM's own reads the code of zero as the least normal number, and lets numbers out of range wrap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.tirx import PrimExpr, Select, reinterpret
from tvm.tirx.stmt_functor import ir_transform

from redfuser.codegen.cpu.values.vectors import like, typed


@dataclass(frozen=True)
class _Format:
    """A sign, some exponent bits, ``mantissa`` bits.

    Args:
        bias: of the exponent.
        largest: code of the largest finite number.
        nan: code of a NaN.
        has_infinity: whether the code after ``largest`` is infinity.
    """

    mantissa: int
    bias: int
    largest: int
    nan: int
    has_infinity: bool

    @property
    def shift(self) -> int:
        """Bits that a float32 has behind this format's mantissa."""
        return 23 - self.mantissa

    @property
    def step(self) -> float:
        """The least positive number: what subnormal ones are multiples of."""
        return 2.0 ** (1 - self.bias - self.mantissa)


FORMATS = {
    "float8_e4m3fn": _Format(3, 7, 0x7E, 0x7F, False),
    "float8_e5m2": _Format(2, 15, 0x7B, 0x7F, True),
}


def spell_out_casts(module: tvm.IRModule) -> tvm.IRModule:
    """Every cast from or to a type of :data:`FORMATS` as operations on bits; casts to one saturate, NaN stays NaN."""
    updated = {variable: _spelled_out(function) for variable, function in module.functions_items()}
    return tvm.IRModule(updated, attrs=module.attrs)


def _spelled_out(function: tvm.ir.BaseFunc) -> tvm.ir.BaseFunc:
    if not isinstance(function, tirx.PrimFunc):
        return function
    bytewise = _Bytes()
    nodes = ["tirx.BufferLoad", "tirx.BufferStore", "tirx.SBlock"]
    body = ir_transform(function.body, bytewise.enter, bytewise.leave, nodes)
    return function.with_body(ir_transform(body, None, _rewrite, ["tirx.Cast"]))


class _Bytes:
    """Keeps codes in what a function allocates for itself as bytes: TVM would compute with them as float32."""

    def __init__(self) -> None:
        self.replaced: dict[tirx.Buffer, tirx.Buffer] = {}

    def enter(self, node: tirx.SBlock | tirx.BufferLoad | tirx.BufferStore) -> None:
        """Replace the buffers that a block allocates, before what uses them is visited."""
        for buffer in node.alloc_buffers if isinstance(node, tirx.SBlock) else ():
            if str(buffer.dtype) in FORMATS:
                self.replaced[buffer] = tirx.decl_buffer(buffer.shape, "uint8", buffer.name, scope=buffer.scope())

    def leave(self, node: tirx.SBlock | tirx.BufferLoad | tirx.BufferStore) -> object:
        """The node on bytes; None to keep it."""
        if isinstance(node, tirx.SBlock):
            return self._block(node) if self.replaced else None
        if node.buffer not in self.replaced:
            return None
        buffer = self.replaced[node.buffer]
        if isinstance(node, tirx.BufferLoad):
            return reinterpret(str(node.buffer.dtype), tirx.BufferLoad(buffer, node.indices))
        return tirx.BufferStore(buffer, _code(node.value), node.indices)

    def _block(self, block: tirx.SBlock) -> tirx.SBlock:
        def regions(items: Iterable[tirx.BufferRegion]) -> list[tirx.BufferRegion]:
            return [tirx.BufferRegion(self.replaced.get(item.buffer, item.buffer), item.region) for item in items]

        return tirx.SBlock(
            block.iter_vars,
            regions(block.reads),
            regions(block.writes),
            block.name_hint,
            block.body,
            block.init,
            [self.replaced.get(buffer, buffer) for buffer in block.alloc_buffers],
            block.match_buffers,
            block.annotations,
            block.span,
        )


def _rewrite(cast: tirx.Cast) -> PrimExpr | None:
    source, target = str(cast.value.dtype), str(cast.dtype)
    value = cast.value
    if source in FORMATS:
        value = decoded_byte(_code(value), FORMATS[source])
    elif target not in FORMATS:
        return None
    if target in FORMATS:
        return reinterpret(target, encoded_byte(value.astype("float32"), FORMATS[target]))
    return value.astype(target)


def _code(value: PrimExpr) -> PrimExpr:
    """The byte of an 8-bit float."""
    if isinstance(value, tirx.Call) and value.op.same_as(tvm.ir.Op.get("tirx.reinterpret")):
        return value.args[0]
    return reinterpret("uint8", value)


def decoded_byte(byte: PrimExpr, layout: _Format) -> PrimExpr:
    """The float32 that a code stands for, or each of a vector's."""
    code = byte.astype(typed("uint32", byte))
    magnitude = code & like(0x7F, code)
    bits = (magnitude << like(layout.shift, code)) + like((127 - layout.bias) << 23, code)
    subnormal = magnitude.astype(typed("float32", code))
    subnormal = subnormal * like(layout.step, subnormal)
    normal = reinterpret(typed("float32", code), bits)
    number = Select(magnitude < like(1 << layout.mantissa, code), subnormal, normal)
    special = magnitude > like(layout.largest, code)
    number = Select(special, like(math.nan, number), number)
    if layout.has_infinity:
        number = Select(magnitude == like(layout.largest + 1, code), like(math.inf, number), number)
    sign = (code & like(0x80, code)) << like(24, code)
    return reinterpret(typed("float32", code), reinterpret(typed("uint32", code), number) | sign)


def encoded_byte(value: PrimExpr, layout: _Format) -> PrimExpr:
    """The code of a float32, or of each in a vector; it saturates."""
    whole, real = typed("uint32", value), typed("float32", value)
    bits = reinterpret(whole, value)

    def u32(number: int) -> PrimExpr:
        return like(number, bits)

    magnitude = bits & u32(0x7FFFFFFF)
    half = u32((1 << (layout.shift - 1)) - 1) + ((magnitude >> u32(layout.shift)) & u32(1))
    normal = ((magnitude + half) >> u32(layout.shift)) - u32((127 - layout.bias) << layout.mantissa)
    multiple = tirx.nearbyint(reinterpret(real, magnitude) * like(1 / layout.step, value))
    is_small = magnitude < u32((128 - layout.bias) << 23)
    finite = Select(is_small, tirx.Cast(whole, Select(is_small, multiple, like(0, value))), normal)
    code = Select(finite > u32(layout.largest), u32(layout.largest), finite)
    code = Select(magnitude > u32(0x7F800000), u32(layout.nan), code)
    return (code | ((bits >> u32(24)) & u32(0x80))).astype(typed("uint8", value))
