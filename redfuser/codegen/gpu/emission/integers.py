"""Integers of tile programs on tensor cores, which multiply bytes: the range of a value, and its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redfuser.expr import Const, Expr, Load, Op, Tensor, cast, number, op
from redfuser.tile.ir import Map, Phase, Statement, Store, Stream
from redfuser.tile.walk import statements

#: The least and the largest value.
Range = tuple[int, int]

BYTES: dict[str, Range] = {"int8": (-128, 127), "uint8": (0, 255)}
#: What half of it, rounded down, is an int8 of.
HALVED: Range = (-256, 255)


def integer_range(value: Expr, known: Mapping[Tensor, Range]) -> Range | None:
    """Bounds of an integer expression; ``None`` if there are none worth knowing.

    Args:
        known: of buffers.
    """
    if isinstance(value, Load):
        return known.get(value.tensor) or BYTES.get(value.dtype)
    if isinstance(value, Const) and "int" in value.dtype:
        return int(value.value), int(value.value)
    if not isinstance(value, Op) or "int" not in value.dtype:
        return None
    return _of_operator(value, known) or BYTES.get(value.dtype)


def _of_operator(value: Op, known: Mapping[Tensor, Range]) -> Range | None:
    arguments = value.args[1:] if value.name == "select" else value.args
    ranges = [integer_range(argument, known) for argument in arguments]
    if any(found is None for found in ranges):
        return None
    least, largest = zip(*(found for found in ranges if found is not None), strict=True)
    result = {
        "cast": (least[0], largest[0]),
        "select": (min(least), max(largest)),
        "min": (min(least), min(largest)),
        "max": (max(least), max(largest)),
        "add": (sum(least), sum(largest)),
        "sub": (least[0] - largest[-1], largest[0] - least[-1]),
    }.get(value.name)
    limits = BYTES.get(value.dtype)
    fits = result is not None and (limits is None or within(result, limits))
    return result if fits else None  # a narrow type wraps around


def within(inner: Range, outer: Range) -> bool:
    """Whether a range lies in another."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def buffer_ranges(phase: Phase) -> dict[Tensor, Range]:
    """Ranges of buffers of integers that maps alone write."""
    known: dict[Tensor, Range] = {}
    body = list(statements(phase.body))
    for buffer in phase.buffers:
        found = [_written(statement, known) for statement in body if _writes(statement, buffer.tensor)]
        sure = [range_ for range_ in found if range_ is not None]
        if sure and len(sure) == len(found):
            least, largest = zip(*sure, strict=True)
            known[buffer.tensor] = min(least), max(largest)
    return known


def _writes(statement: Statement, tensor: Tensor) -> bool:
    return not isinstance(statement, Store | Stream) and statement.target.tensor == tensor


def _written(statement: Statement, known: Mapping[Tensor, Range]) -> Range | None:
    return integer_range(statement.value, known) if isinstance(statement, Map) else None


def signed_bytes(value: Expr, known: Mapping[Tensor, Range]) -> Sequence[Expr] | None:
    """Terms, each an int8 whatever its type, that add up to a value: itself, or twice its half and what is left.

    Returns:
        ``None`` if the value may lie outside :data:`HALVED`.
    """
    found = integer_range(value, known)
    if found is None or not within(found, HALVED):
        return None
    if within(found, BYTES["int8"]):
        return (value,)
    wide = cast(value, "int32")
    two = number(2, "int32")
    half = op("floordiv", wide, two)
    return cast(half, "int8"), cast(half, "int8"), cast(op("sub", wide, op("mul", half, two)), "int8")
