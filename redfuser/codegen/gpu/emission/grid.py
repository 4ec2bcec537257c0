"""The blocks of a phase as a CUDA grid of up to three dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from redfuser.codegen.gpu.emission.open_sizes import Sizes
from redfuser.codegen.refusal import Refused
from redfuser.extents import is_symbolic
from redfuser.tile.ir import Tile

#: Blocks along x, and along y and z.
MOST_X, MOST_YZ = 2**31 - 1, 65535
VARIABLES = ("bx", "by", "bz")


@dataclass(frozen=True)
class Launch:
    """How blocks are numbered.

    Args:
        extents: blocks along x and, where there are several, y and z; text where it follows from open sizes.
        numbers: text of a tile's number along its axis, one for each tile of the phase's grid.
    """

    extents: tuple[int | str, ...]
    numbers: tuple[str, ...]


def launch(grid: Sequence[Tile], sizes: Sizes | None = None) -> Launch:
    """The last tile along x, the one before along y, and all others along z.

    Neighbouring blocks thus share what varies with outer axes only, such as the keys of one head.

    Args:
        sizes: text of open sizes.

    Raises:
        Refused: more blocks than a launch may have.
    """
    counts = [_count(tile, sizes or Sizes()) for tile in grid]
    several = [n for n, count in enumerate(counts) if isinstance(count, str) or count > 1]
    dimensions = [several[-1:], several[-2:-1], several[:-2]]
    most = [prod(grid[n].count for n in dimension) for dimension in dimensions]
    if max(most[1:]) > MOST_YZ:
        dimensions, most = [several], [prod(tile.count for tile in grid)]
    if most[0] > MOST_X and not any(isinstance(count, str) for count in counts):
        raise Refused("grid", f"a launch has at most {MOST_X} blocks", most[0])
    numbers = ["0"] * len(grid)
    for variable, dimension in zip(VARIABLES, dimensions, strict=False):
        inner: list[int | str] = []
        for position in reversed(dimension):
            step = _times(inner)
            quotient = f"{variable} // {step}" if step != 1 else variable
            numbers[position] = quotient if position == dimension[0] else f"{quotient} % {counts[position]}"
            inner = [counts[position], *inner]
    extents = [_times([counts[n] for n in dimension]) for dimension in dimensions]
    used = max((n for n, extent in enumerate(extents) if isinstance(extent, str) or extent > 1), default=0)
    return Launch(tuple(extents[: used + 1]), tuple(numbers))


def _count(tile: Tile, sizes: Sizes) -> int | str:
    """Blocks along one axis; text that binds like a name where the axis is open."""
    if not is_symbolic(tile.axis.extent):
        return tile.count
    extent = sizes.text(tile.axis.extent)
    return extent if tile.size == 1 else f"T.ceildiv({extent}, {tile.size})"


def _times(counts: Sequence[int | str]) -> int | str:
    """The product, as text that binds like a name where a factor is text."""
    known = prod(count for count in counts if isinstance(count, int))
    texts = [count for count in counts if isinstance(count, str)]
    factors = [str(known)] * (known != 1) + texts
    return known if not texts else factors[0] if len(factors) == 1 else f"({' * '.join(factors)})"
