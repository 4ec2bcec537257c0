"""Products of bytes, after rows have been quantised."""

from __future__ import annotations

from redfuser.cascade.model import Cascade
from redfuser.expr import axes_of
from redfuser.extents import is_symbolic, most
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.strategies.apart import APART, Factors
from redfuser.tile.untuned.choice import BLOCKS_PER_CORE, ROW_CHUNK, Choice

#: Rows and columns of a block.
BYTE_ROW_TILES, COLUMN_TILE, WIDE_COLUMNS = (256, 128, 64, 32, 16), 64, 768

#: Rows of a block, of an open number of rows: fewer are gone through in narrower tiles.
OPEN_ROWS = 64


def columns_of(factors: Factors) -> int:
    """Columns of a product of bytes; 0 where there is no single axis of them."""
    own = [a for a in factors.reduction.axes if a in axes_of(factors.right)]
    return own[0].extent if len(own) == 1 else 0


def byte_product(cascade: Cascade, factors: Factors, target: CpuTarget) -> Choice:
    """Row blocks as large as fit half the second-level cache and leave every core some; a few panels of columns."""
    column = next(a for a in factors.reduction.axes if a in axes_of(factors.right))
    row = max((a for a in factors.reduction.axes if a != column), key=lambda a: most(a.extent))
    rows, is_open = most(row.extent), is_symbolic(row.extent)
    width = _block_columns(rows, column.extent, target)
    fits = [n for n in BYTE_ROW_TILES if 2 * n * cascade.axis.extent <= target.l2_kb * 1024] or [BYTE_ROW_TILES[-1]]
    fits = [n for n in fits if n <= OPEN_ROWS or not is_open] or [OPEN_ROWS]
    panels = -(-column.extent // width)
    enough = [n for n in fits if -(-rows // n) * panels >= BLOCKS_PER_CORE * target.cores]
    height = (enough or fits[-1:])[0]
    tiles = ((row.name, min(height, rows)), (column.name, width))
    along = (cascade.axis.name, max(min(ROW_CHUNK, cascade.axis.extent), 1))
    chosen = Schedule("resident", (*tiles, along), 1, cascade.axis.name, ((APART, 1),))
    return Choice(chosen, f"rows first, as bytes; then {height} of them against {width} columns at a time")


def _block_columns(rows: int, columns: int, target: CpuTarget) -> int:
    """Columns of a block of a product of bytes.

    Few rows have each panel packed in the block that needs it. Then blocks are as wide as leave every core some and
    their sums a quarter of the second-level cache, for rows of a weight are pages apart.
    """
    few = rows <= BYTE_ROW_TILES[0]
    room = min(target.l2_kb * 256 // (4 * rows), columns // (BLOCKS_PER_CORE * target.cores)) if few else 0
    for widest in (min(room, WIDE_COLUMNS), 2 * COLUMN_TILE if few else COLUMN_TILE):
        fitting = [n for n in range(16, widest + 1, 16) if columns % n == 0]
        if fitting and fitting[-1] * 2 > widest:
            return fitting[-1]
    return fitting[-1] if fitting else 16
