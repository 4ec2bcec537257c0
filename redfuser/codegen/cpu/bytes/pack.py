"""Code that packs the right factor of a product of bytes, where it is known on the call only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.codegen.cpu.bytes.matrix import Matrix
from redfuser.codegen.cpu.bytes.panels import COLUMNS, QUAD, ROWS, STEP, Panels
from redfuser.codegen.cpu.values.builder import Builder, matched
from redfuser.codegen.cpu.values.vectors import shuffle
from redfuser.expr import Expr, index, op

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

#: Panels packed side by side: of each row some cache lines that follow each other are read, for rows are pages apart.
ABREAST = 16

#: Place of each byte of a line of a panel in four rows of 16 columns.
INTERLEAVED = tuple(row * COLUMNS + column for column in range(COLUMNS) for row in range(QUAD))


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
        with builder.loop("panel", count) as panel:
            here = op("add", column, op("mul", panel, index(COLUMNS)))
            row = op("mul", quad, index(QUAD))
            lines = [source.at(builder, op("add", row, index(r)), here, COLUMNS) for r in range(rows)]
            lines += [_zero(str(target.array.dtype), COLUMNS)] * (QUAD - rows)
            value = shuffle(lines, INTERLEAVED) if rows else _zero(str(target.array.dtype), STEP)
            place = target.place(builder, op("add", first, panel), op("mul", quad, index(STEP)), STEP)
            builder.store(target.array, place, value)

    with builder.loop("quad", full) as quad:
        if full:
            write(quad, QUAD)
    if rest:
        write(index(full), rest)
    missing = panels.steps * ROWS - full - bool(rest)
    with builder.loop("quad", missing) as quad:
        if missing:
            write(op("add", index(full + bool(rest)), quad), 0)


def _zero(dtype: str, lanes: int) -> PrimExpr:
    from tvm.tirx import const

    return matched(const(0, dtype), lanes)
