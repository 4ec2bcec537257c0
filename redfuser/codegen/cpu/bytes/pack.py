"""Code that packs the right factor of a product of bytes, where it is known on the call only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.bytes.matrix import Matrix, cuts
from redfuser.codegen.cpu.bytes.panels import COLUMNS, QUAD, ROWS, STEP, Panels
from redfuser.codegen.cpu.values.builder import Builder, lanes_of, matched
from redfuser.codegen.cpu.values.vectors import shuffle
from redfuser.expr import Expr, index, op

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

#: Panels packed side by side: of each row some cache lines that follow each other are read, for rows are pages apart.
ABREAST = 16

#: Place of each byte of a line of a panel in four rows of 16 columns.
INTERLEAVED = tuple(row * COLUMNS + column for column in range(COLUMNS) for row in range(QUAD))

#: Panels whose rows fill a register.
WIDE = 4

#: Size of an element -> orders that interleave the lower and the upper halves of the quarters of two registers.
UNPACKED = {
    size: tuple(
        tuple(
            quarter + half + element + which + byte
            for quarter in range(0, STEP, COLUMNS)
            for element in range(0, COLUMNS // 2, size)
            for which in (0, STEP)
            for byte in range(size)
        )
        for half in (0, COLUMNS // 2)
    )
    for size in (1, 2)
}


def _quarters(*numbers: int) -> tuple[int, ...]:
    """The order that puts quarters of two registers side by side."""
    return tuple(number * COLUMNS + byte for number in numbers for byte in range(COLUMNS))


#: Orders that bring together what two registers hold of the first two panels, and of the last two …
QUARTERS = (_quarters(0, 1, 4, 5), _quarters(2, 3, 6, 7))

#: … and, of two such registers, what is of the first of the two panels, and of the second.
LINES = (_quarters(0, 2, 4, 6), _quarters(1, 3, 5, 7))


def write_packing(builder: Builder, source: Matrix, packed: Array, panels: Panels) -> None:
    """Pack a matrix of bytes whose columns lie side by side, in parallel.

    Args:
        source: ``panels.depth`` × ``panels.columns``.
        packed: flat, ``panels.size`` elements of the same type.
    """
    target = Matrix(packed, index(0), panels.panel_bytes)
    aligned = panels.columns // panels.block * panels.block // COLUMNS
    full, rest = divmod(aligned, ABREAST)
    with builder.loop("group", full, "parallel" if full > 1 else "serial") as group:
        if full:
            first = op("mul", group, index(ABREAST))
            write_columns(builder, source, target, panels, first, op("mul", first, index(COLUMNS)), ABREAST)
    if rest:
        first = index(full * ABREAST)
        write_columns(builder, source, target, panels, first, index(full * ABREAST * COLUMNS), rest)
    moved = len(panels.starts) - aligned
    if moved:
        write_columns(builder, source, target, panels, index(aligned), index(panels.starts[aligned]), moved)


def write_columns(
    builder: Builder, source: Matrix, target: Matrix, panels: Panels, first: Expr, column: Expr, count: int
) -> None:
    """Pack some panels side by side, from the matrix' column ``column`` on, four rows at a time."""
    full, rest = divmod(panels.depth, QUAD)

    def write(quad: Expr, rows: int) -> None:
        for panel, abreast in _together(builder, count):
            here = op("add", column, op("mul", panel, index(COLUMNS)))
            width = abreast * COLUMNS
            row = op("mul", quad, index(QUAD))
            values = [source.at(builder, op("add", row, index(r)), here, width) for r in range(rows)]
            values += [_zero(str(target.array.dtype), width)] * (QUAD - rows)
            for number, line in enumerate(interleaved(builder, values)):
                place = op("add", first, op("add", panel, index(number)))
                builder.store(target.array, target.place(builder, place, op("mul", quad, index(STEP)), STEP), line)

    with builder.loop("quad", full) as quad:
        if full:
            write(quad, QUAD)
    if rest:
        write(index(full), rest)
    missing = panels.steps * ROWS - full - bool(rest)
    with builder.loop("quad", missing) as quad:
        if missing:
            write(op("add", index(full + bool(rest)), quad), 0)


def _together(builder: Builder, count: int) -> Iterator[tuple[Expr, int]]:
    """First panels of groups that are packed at once, and how many each has: four, or one of those that are left."""
    for first, some in cuts(builder, "panel", count, WIDE):
        yield from [(first, some)] if some == WIDE else [(op("add", first, index(n)), 1) for n in range(some)]


def interleaved(builder: Builder, rows: Sequence[PrimExpr]) -> list[PrimExpr]:
    """Lines of one panel, or of two or four, from four rows of their columns.

    The rows of four panels are interleaved inside quarters of registers, bytes and then pairs; then quarters change
    places: sixteen instructions for four lines, where a panel by itself takes eleven.
    """
    if lanes_of(rows[0]) == COLUMNS:
        return [shuffle(rows, INTERLEAVED)]
    if lanes_of(rows[0]) == 2 * COLUMNS:
        halves = [[shuffle([row], range(start, start + COLUMNS)) for row in rows] for start in (0, COLUMNS)]
        return [shuffle(half, INTERLEAVED) for half in halves]

    def both(name: str, a: PrimExpr, b: PrimExpr, orders: Sequence[Sequence[int]]) -> list[PrimExpr]:
        return [builder.bind(name, shuffle([a, b], order)) for order in orders]

    a, b, c, d = (builder.bind("row", row) for row in rows)
    low, high = both("bytes", a, b, UNPACKED[1])
    low_after, high_after = both("bytes", c, d, UNPACKED[1])
    # Each holds four columns of every panel.
    columns = [*both("pairs", low, low_after, UNPACKED[2]), *both("pairs", high, high_after, UNPACKED[2])]
    front, back = (both("quarters", columns[n], columns[n + 1], QUARTERS) for n in (0, 2))
    both_halves = [both("line", x, y, LINES) for x, y in zip(front, back, strict=True)]
    return [line for half in both_halves for line in half]


def _zero(dtype: str, lanes: int) -> PrimExpr:
    from tvm.tirx import const

    return matched(const(0, dtype), lanes)
