"""Operations on whole vectors: splitting, joining, transposition, horizontal folds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.values.builder import Builder, lanes_of, matched, scalar_dtype
from redfuser.expr import Expr, index, op

if TYPE_CHECKING:
    from tvm.tirx import Buffer, PrimExpr


def like(value: float, other: PrimExpr) -> PrimExpr:
    """A constant of another value's type and width."""
    from tvm.tirx import const

    dtype = scalar_dtype(other)
    return matched(const(float(value) if "float" in dtype else int(value), dtype), lanes_of(other))


def typed(dtype: str, value: PrimExpr) -> str:
    """The type of ``dtype`` elements as wide as ``value``."""
    lanes = lanes_of(value)
    return f"{dtype}x{lanes}" if lanes > 1 else dtype


def level(*values: PrimExpr) -> tuple[PrimExpr, ...]:
    """Values of one width: scalars are broadcast to the widest."""
    width = max(map(lanes_of, values))
    return tuple(matched(value, width) for value in values)


def intrinsic(dtype: str, name: str, *arguments: PrimExpr) -> PrimExpr:
    """A call of an LLVM intrinsic without side effects."""
    from tvm.tirx import call_llvm_pure_intrin

    return call_llvm_pure_intrin(dtype, name, *arguments)


def multiply_add(a: PrimExpr, b: PrimExpr, c: PrimExpr) -> PrimExpr:
    """``a * b + c``, fused where the processor can. The simplifier doesn't see through it, so error terms survive."""
    a, b, c = level(a, b, c)
    return intrinsic(str(a.dtype), "llvm.fmuladd", a, b, c)


def polynomial(x: PrimExpr, coefficients: Sequence[float]) -> PrimExpr:
    """By Horner's rule, the highest power's coefficient first."""
    value = like(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = multiply_add(value, x, like(coefficient, x))
    return value


def extremum(name: str, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """``max`` or ``min``; a NaN on either side is handed on, as ONNX does.

    ``Max`` alone gives its second argument where either is a NaN: one check of the first is enough.
    """
    from tvm.tirx import Max, Min, Select, isnan

    a, b = level(a, b)
    chosen = (Max if name == "max" else Min)(a, b)
    return Select(isnan(a), a, chosen) if "float" in str(a.dtype) else chosen


def extremum_of_numbers(name: str, a: PrimExpr, b: PrimExpr) -> PrimExpr:
    """``max`` or ``min``, and ``a`` where ``b`` is a NaN: one instruction."""
    from tvm.tirx import Max, Min

    return (Max if name == "max" else Min)(b, a)


def shuffle(values: Sequence[PrimExpr], positions: Sequence[int]) -> PrimExpr:
    """Elements of the concatenated ``values`` at ``positions``."""
    from tvm.tirx import Shuffle, const

    return Shuffle(list(values), [const(p, "int32") for p in positions])


def fold(builder: Builder, combine: Callable[[PrimExpr, PrimExpr], PrimExpr], vectors: Sequence[PrimExpr]) -> PrimExpr:
    """All lanes of all vectors combined into one scalar, pairwise."""
    by_width: dict[int, list[PrimExpr]] = {}
    for vector in vectors:
        by_width.setdefault(lanes_of(vector), []).append(vector)
    rest: PrimExpr | None = None
    while by_width:
        width = max(by_width)
        same = by_width.pop(width)
        while len(same) > 1:
            same = [builder.bind("pair", combine(*same[:2])), *same[2:]]
        if width == 1:
            rest = same[0]
            break
        half = width // 2
        parts = [shuffle(same, range(half)), shuffle(same, range(half, 2 * half))]
        by_width.setdefault(half, []).extend(builder.bind("half", part) for part in parts)
        if width % 2:
            by_width.setdefault(1, []).append(shuffle(same, [width - 1]))
    assert rest is not None
    return rest


def interleaved(lanes: int, distance: int) -> tuple[list[int], list[int]]:
    """Of two vectors, the positions that keep or get the even blocks of ``distance`` elements, and the odd ones."""
    even = [c if not c & distance else lanes + c - distance for c in range(lanes)]
    odd = [c + distance if not c & distance else lanes + c for c in range(lanes)]
    return even, odd


def transpose(builder: Builder, halves: Sequence[Buffer], lanes: int) -> None:
    """Transpose a square of ``lanes`` vectors in place: its halves change places, then the halves of those, and so on.

    Args:
        halves: the upper and the lower vectors, flat; small enough to be kept in registers.
        lanes: a power of two.
    """
    upper, lower = halves
    with builder.loop("pair", lanes // 2, "unroll") as pair:
        _exchange(builder, [(upper, pair), (lower, pair)], lanes, lanes // 2)
    distance = lanes // 4
    while distance:
        for half in halves:
            with builder.loop("pair", lanes // 4, "unroll") as pair:
                block = op("mul", op("floordiv", pair, index(distance)), index(2 * distance))
                row = op("add", block, op("floormod", pair, index(distance)))
                _exchange(builder, [(half, row), (half, op("add", row, index(distance)))], lanes, distance)
        distance //= 2


def _exchange(builder: Builder, rows: Sequence[tuple[Buffer, Expr]], lanes: int, distance: int) -> None:
    """Exchange the odd blocks of one vector with the even blocks of another."""
    from tvm.tirx import BufferLoad, Ramp

    places = [Ramp(builder.index(op("mul", number, index(lanes))), 1, lanes) for _, number in rows]
    values = [BufferLoad(array, [place]) for (array, _), place in zip(rows, places, strict=True)]
    swapped = [builder.bind("swapped", shuffle(values, order)) for order in interleaved(lanes, distance)]
    for (array, _), place, value in zip(rows, places, swapped, strict=True):
        builder.store(array, place, value)
