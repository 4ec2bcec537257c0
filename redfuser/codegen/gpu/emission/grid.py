"""The blocks of a phase as a CUDA grid of up to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from redfuser.codegen.refusal import Refused
from redfuser.tile.ir import Tile

#: Blocks along x, and along y and z.
MOST_X, MOST_YZ = 2**31 - 1, 65535
VARIABLES = ("bx", "by", "bz")


@dataclass(frozen=True)
class Launch:
    """How blocks are numbered.

    Args:
        extents: blocks along x and, where there are several, y and z.
        numbers: text of a tile's number along its axis, one for each tile of the phase's grid.
    """

    extents: tuple[int, ...]
    numbers: tuple[str, ...]


def launch(grid: Sequence[Tile]) -> Launch:
    """The last tile along x, the one before along y, and all others along z.

    Neighbouring blocks thus share what varies with outer axes only, such as the keys of one head.

    Raises:
        Refused: more blocks than a launch may have.
    """
    several = [n for n, tile in enumerate(grid) if tile.count > 1]
    dimensions = [several[-1:], several[-2:-1], several[:-2]]
    extents = [prod(grid[n].count for n in dimension) for dimension in dimensions]
    if max(extents[1:]) > MOST_YZ:
        dimensions, extents = [several], [prod(tile.count for tile in grid)]
    if extents[0] > MOST_X:
        raise Refused("grid", f"a launch has at most {MOST_X} blocks", extents[0])
    numbers = ["0"] * len(grid)
    for variable, dimension in zip(VARIABLES, dimensions, strict=False):
        step = 1
        for position in reversed(dimension):
            quotient = f"{variable} // {step}" if step > 1 else variable
            numbers[position] = quotient if position == dimension[0] else f"{quotient} % {grid[position].count}"
            step *= grid[position].count
    used = max((n for n, extent in enumerate(extents) if extent > 1), default=0)
    return Launch(tuple(extents[: used + 1]), tuple(numbers))
