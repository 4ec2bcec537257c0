"""Single operators on TIR values of one width: constants, binary operators, conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.codegen.cpu.values.builder import scalar_dtype
from redfuser.codegen.cpu.values.types import computed, rounded, rounded_to_float8
from redfuser.codegen.cpu.values.vectors import extremum, like, typed
from redfuser.expr import PAIR, Const, number
from redfuser.expr.saturation import Saturation, of_nan

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr


def constant(node: Const) -> PrimExpr:
    """A number in the type that its own type is computed in."""
    from tvm.tirx import const

    if node.dtype == PAIR:
        node = number(node.value, computed(PAIR))
    return const(bool(node.value) if node.dtype == "bool" else node.value, computed(node.dtype))


def operator(name: str, *arguments: PrimExpr) -> PrimExpr:
    """A binary operator, or ``select``, on values of one width."""
    from tvm import tirx

    first = arguments[0]
    real = "float" in str(first.dtype)
    if name in ("max", "min"):
        return extremum(name, *arguments)
    if name == "ne" and real:
        # The ordered comparison is false for NaN, where "not equal" is true.
        return tirx.Or(tirx.NE(*arguments), tirx.Or(*map(tirx.isnan, arguments)))
    if name == "div" and not real:
        return tirx.truncdiv(*arguments)
    if name in ("floordiv", "floormod") and real:
        quotient = tirx.floor(tirx.Div(*arguments))
        return quotient if name == "floordiv" else first - quotient * arguments[1]
    table = {
        "add": tirx.Add,
        "sub": tirx.Sub,
        "mul": tirx.Mul,
        "div": tirx.Div,
        "floordiv": tirx.FloorDiv,
        "floormod": tirx.FloorMod,
        "eq": tirx.EQ,
        "ne": tirx.NE,
        "lt": tirx.LT,
        "le": tirx.LE,
        "gt": tirx.GT,
        "ge": tirx.GE,
        "and": tirx.And,
        "or": tirx.Or,
        "select": tirx.Select,
    }
    return table[name](*arguments)


def converted(value: PrimExpr, dtype: str) -> PrimExpr:
    """The value in another type, rounded to nearest where it must be; only zero is false.

    LLVM's conversion of a NaN to integers alone is undefined, and what follows with it.
    """
    from tvm.tirx import NE, Select, isnan

    source = scalar_dtype(value)
    if source == dtype:
        return value
    if dtype == "bfloat16":
        return rounded(converted(value, "float32"))
    if dtype.startswith("float8"):
        return rounded_to_float8(converted(value, "float32"), dtype)
    if dtype == "bool":
        nonzero = NE(value, like(0, value))
        return operator("or", nonzero, isnan(value)) if "float" in source else nonzero
    if source == "bool":
        one = value.astype(typed("int8", value))
        number = Select(value, like(1, one), like(0, one))
        return number.astype(typed(dtype, value))
    result = value.astype(typed(dtype, value))
    truncated = "float" in source and "int" in dtype
    return Select(isnan(value), like(of_nan(dtype), result), result) if truncated else result


def saturated(held: Saturation, value: PrimExpr, dtype: str) -> PrimExpr:
    """The held value between its bounds, in an integer type: TVM's ``Max`` drops a NaN, and one check may do."""
    from tvm.tirx import Max, Min, Select, isnan

    low, high = like(held.low.value, value), like(held.high.value, value)
    result = Min(Max(value, low), high).astype(typed(dtype, value))
    return result if held.drops_nan(dtype) else Select(isnan(value), like(of_nan(dtype), result), result)


def one_integer_type(arguments: tuple[PrimExpr, ...]) -> tuple[PrimExpr, ...]:
    """Integers of several widths brought to the widest; index arithmetic may be narrower than stated."""
    names = {scalar_dtype(a) for a in arguments if "int" in scalar_dtype(a)}
    if len(names) < 2:
        return arguments
    widest = max(names, key=lambda n: int(n.lstrip("uint")))
    return tuple(a.astype(typed(widest, a)) if "int" in scalar_dtype(a) else a for a in arguments)
