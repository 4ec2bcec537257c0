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

#: Panels packed side by side: a line of the cache is read once.
ABREAST = 4

#: Place of each byte of a line of a panel in four rows of 16 columns.
INTERLEAVED = tuple(row * COLUMNS + column for column in range(COLUMNS) for row in range(QUAD))


def write_packing(builder: Builder, source: Matrix, packed: Array, panels: Panels) -> None:
    """Pack a matrix of bytes whose columns lie side by side, in parallel.

    Args:
        source: ``panels.depth`` × ``panels.columns``.
        packed: flat, ``panels.size`` elements of the same type.
    """
    starts = panels.starts
    whole = panels.columns // panels.block * panels.block // COLUMNS
    groups = -(-len(starts) // ABREAST)
    with builder.loop("group", groups, "parallel" if groups > 1 else "serial") as group:
        for place in range(ABREAST):
            panel = op("add", op("mul", group, index(ABREAST)), index(place))
            with builder.when(builder.index(panel) < builder.number(len(starts))):
                moved = starts[whole] - whole * COLUMNS if whole < len(starts) else 0
                here = builder.index(op("mul", panel, index(COLUMNS)))
                if moved:
                    from tvm.tirx import Select

                    last = builder.index(panel) >= builder.number(whole)
                    here = Select(last, here + builder.number(moved), here)
                column = builder.named("first_column", here, panels.columns)
                _panel(builder, source, packed, panels, panel, column)


def _panel(builder: Builder, source: Matrix, packed: Array, panels: Panels, panel: Expr, column: Expr) -> None:
    target = Matrix(packed, op("mul", panel, index(panels.panel_bytes)), STEP)
    full, rest = divmod(panels.depth, QUAD)

    def write(quad: Expr, rows: int) -> None:
        first = op("mul", quad, index(QUAD))
        lines = [source.at(builder, op("add", first, index(r)), column, COLUMNS) for r in range(rows)]
        lines += [_zero(str(packed.dtype), COLUMNS)] * (QUAD - rows)
        value = shuffle(lines, INTERLEAVED) if rows else _zero(str(packed.dtype), STEP)
        builder.store(packed, target.place(builder, quad, index(0), STEP), value)

    with builder.loop("quad", full) as quad:
        if full:
            write(quad, QUAD)
    if rest:
        write(index(full), rest)
    for quad_number in range(full + bool(rest), panels.steps * ROWS):
        write(index(quad_number), 0)


def _zero(dtype: str, lanes: int) -> PrimExpr:
    from tvm.tirx import const

    return matched(const(0, dtype), lanes)
