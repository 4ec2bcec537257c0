"""Register tiles for a number of rows that is known on the call only. No TVM."""

from __future__ import annotations

from dataclasses import replace

from redfuser.codegen.cpu.remainder.products.tiling import Tiling, cycles
from redfuser.extents import Extent, least, most

#: Up to so many of the highest register tiles, a lower one may waste less on a number of rows.
FEW_TILES = 4


def height_ranges(wide: Tiling, extent: Extent, few: int = 0) -> dict[int, list[tuple[int, int]]]:
    """Rows of each register tile that a symbolic number of rows needs -> first and last of the numbers it is for.

    Of few rows the last tile computes many again: the tile with the least estimated time is taken.

    Args:
        few: up to so many rows are seen to otherwise.
    """
    heights = _heights(wide.rows, extent)
    found: dict[int, list[tuple[int, int]]] = {}

    def cost(height: int, rows: int) -> float:
        return cycles(replace(wide, rows=height)) * -(-rows // height)

    first = max(least(extent), few + 1)
    some = min(FEW_TILES * wide.rows, most(extent))
    for rows in range(first, some + 1):
        best = min((height for height in heights if height <= rows), key=lambda height: (cost(height, rows), -height))
        ranges = found.setdefault(best, [])
        if ranges and ranges[-1][1] == rows - 1:
            ranges[-1] = (ranges[-1][0], rows)
        else:
            ranges.append((rows, rows))
    if some < most(extent):
        ranges = found.setdefault(heights[0], [])
        ranges.append((max(some + 1, first), most(extent)))
    return found


def _heights(rows: int, extent: Extent) -> list[int]:
    """Rows of the register tiles that a symbolic number of rows needs: one that has enough of them is the last.

    A second tile of four rows would be almost wasted on a fifth and sixth: two of three do.
    """
    sizes = (rows, *([rows - 1] if rows == 4 else []), -(-rows // 2), 1)
    heights = [height for height in dict.fromkeys(sizes) if height <= most(extent)]
    enough = next((n for n, height in enumerate(heights) if height <= least(extent)), len(heights) - 1)
    return heights[: enough + 1]
