"""Pairs of a value and a position as one 64-bit integer of the same order: value above, position below.

So a maximum of pairs is a maximum of integers, whatever ties and NaN the values hold. A float's bits become an integer
that orders like it; all NaN become the one above infinity, and both zeros the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.codegen.cpu.values.builder import Builder, scalar_dtype
from redfuser.codegen.cpu.values.vectors import like, typed
from redfuser.codegen.refusal import Refused

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

#: Positions are kept above this, so that they are never negative.
_BIAS = 1 << 31
_NAN = 0x7FC00000
_ALL_BUT_SIGN = 0x7FFFFFFF
_WIDE = frozenset({"float64", "int64", "uint32", "uint64"})


def make_pair(builder: Builder, value: PrimExpr, position: PrimExpr) -> PrimExpr:
    """The pair of a value and a position.

    Raises:
        Refused: values of this type need more than 32 bits.
    """
    if scalar_dtype(value) in _WIDE:
        raise Refused(
            "type-without-code", "a pair holds values of up to 32 bits", f"selections among {scalar_dtype(value)}"
        )
    upper = (_ordered(builder, value) if "float" in scalar_dtype(value) else value).astype(typed("int64", value))
    lower = position.astype(typed("int64", position))
    return upper * like(1 << 32, upper) + (lower + like(_BIAS, lower))


def value_of_pair(builder: Builder, pair: PrimExpr, dtype: str) -> PrimExpr:
    """The value, as numbers of ``dtype`` are computed with."""
    from tvm.tirx import NE, reinterpret

    upper = builder.bind("upper", (pair >> like(32, pair)).astype(typed("int32", pair)))
    if dtype == "bool":
        return NE(upper, like(0, upper))
    if "float" not in dtype:
        return upper.astype(typed(dtype, pair))
    value = reinterpret(typed("float32", pair), _flipped(upper))
    return value.astype(typed("float16", pair)) if dtype == "float16" else value


def position_of_pair(builder: Builder, pair: PrimExpr) -> PrimExpr:
    """The position."""
    # Cut off rather than masked, on which TVM's simplifier fails; the bias is the sign of what is left.
    lower = builder.bind("lower", pair.astype(typed("int32", pair)))
    return (lower ^ like(-_BIAS, lower)).astype(typed("int64", pair))


def _ordered(builder: Builder, value: PrimExpr) -> PrimExpr:
    from tvm.tirx import Select, isnan, reinterpret

    value = builder.bind("value", value.astype(typed("float32", value)))
    bits = builder.bind("bits", reinterpret(typed("int32", value), value))
    ordered = Select(isnan(value), like(_NAN, bits), _flipped(bits))
    return Select(value == like(0, value), like(0, bits), ordered)


def _flipped(bits: PrimExpr) -> PrimExpr:
    """From a float's bits to an integer of the same order, and back: negative numbers count downwards."""
    return bits ^ ((bits >> like(31, bits)) & like(_ALL_BUT_SIGN, bits))
