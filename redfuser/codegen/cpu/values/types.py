"""Element types in storage and registers: bools take a byte, pairs are integers, narrower floats are float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.codegen.cpu.values.vectors import like, typed
from redfuser.expr import PAIR

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr


def computed(dtype: str) -> str:
    """The type that values of ``dtype`` have in registers."""
    narrow = dtype == "bfloat16" or dtype.startswith("float8")
    return "float32" if narrow else {PAIR: "int64"}.get(dtype, dtype)


def in_memory(dtype: str) -> str:
    """The type of the array through which a tensor of ``dtype`` is accessed: TVM has no vectors of narrow floats."""
    return "uint8" if dtype.startswith("float8") else {"bfloat16": "uint16", PAIR: "int64"}.get(dtype, dtype)


def decoded(value: PrimExpr, dtype: str) -> PrimExpr:
    """What was read from storage of ``dtype`` as a value to compute with."""
    from tvm.tirx import NE, reinterpret

    if dtype == "bool":
        byte = value.astype(typed("int8", value))
        return NE(byte, like(0, byte))
    if dtype == "bfloat16" and "uint16" in str(value.dtype):
        bits = value.astype(typed("uint32", value))
        return reinterpret(typed("float32", value), bits << like(16, bits))
    if dtype.startswith("float8") and "uint8" in str(value.dtype):
        from redfuser.codegen.cpu.values.float8 import FORMATS, decoded_byte

        return decoded_byte(value, FORMATS[dtype])
    return value


def encoded(value: PrimExpr, dtype: str, stored: str) -> PrimExpr:
    """A computed value of ``dtype`` as it is written to an array of type ``stored``."""
    if dtype == "bfloat16" and stored == "uint16":
        return _bfloat16_bits(value.astype(typed("float32", value)))
    if dtype.startswith("float8") and stored == "uint8":
        from redfuser.codegen.cpu.values.float8 import FORMATS, encoded_byte

        return encoded_byte(value.astype(typed("float32", value)), FORMATS[dtype])
    return value.astype(typed(stored, value))


def rounded(value: PrimExpr) -> PrimExpr:
    """A float32 value rounded to bfloat16, still as float32."""
    return decoded(_bfloat16_bits(value.astype(typed("float32", value))), "bfloat16")


def rounded_to_float8(value: PrimExpr, dtype: str) -> PrimExpr:
    """A float32 value rounded to nearest even among those of an 8-bit float, still as float32; it saturates."""
    from ml_dtypes import finfo
    from tvm.tirx import Select, abs, isnan, nearbyint, reinterpret

    kind = finfo(dtype)
    dropped = 23 - kind.nmant
    bits = reinterpret(typed("uint32", value), value)
    even = (bits >> like(dropped, bits)) & like(1, bits)
    upper = bits + even + like((1 << (dropped - 1)) - 1, bits)
    normal = reinterpret(typed("float32", value), upper & like(0xFFFFFFFF ^ ((1 << dropped) - 1), bits))
    step = like(float(kind.smallest_subnormal), value)
    small = nearbyint(value / step) * step
    result = Select(abs(value) < like(float(kind.smallest_normal), value), small, normal)
    most = like(float(kind.max), value)
    inside = Select(result > most, most, Select(result < -most, -most, result))
    return Select(isnan(value), value, inside)


def _bfloat16_bits(value: PrimExpr) -> PrimExpr:
    """The upper half of a float32's bits, rounded to nearest even; a NaN stays one."""
    from tvm.tirx import Select, isnan, reinterpret

    bits = reinterpret(typed("uint32", value), value)
    even = (bits >> like(16, bits)) & like(1, bits)
    upper = (bits + even + like(0x7FFF, bits)) >> like(16, bits)
    return Select(isnan(value), like(0x7FC0, bits), upper).astype(typed("uint16", value))
