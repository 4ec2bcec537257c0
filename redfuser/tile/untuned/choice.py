"""A choice, and what its rules share: sizes, and when a tile fits a cache or an axis is cut in segments."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.cascade.model import Cascade
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Schedule

#: Row tiles, the widest first: what register tiles of a matrix product are made of.
ROW_TILES = (64, 32, 16)
#: Tile of the streamed axis in a matrix product, and of a long row without one.
STREAM_TILE, ROW_CHUNK = 64, 4096
#: Blocks for each core before rows count as many, and the shortest segment worth a block of its own.
BLOCKS_PER_CORE, SHORTEST_SEGMENT = 2, 256
FLOAT_BYTES = 4


@dataclass(frozen=True)
class Choice:
    """A schedule, and why it was chosen."""

    schedule: Schedule
    why: str


def fits_l2(size: int, target: CpuTarget) -> bool:
    """Whether a tile leaves as much again of the second-level cache to what streams past it."""
    return 2 * size <= target.l2_kb * 1024


def segments_for(cascade: Cascade, incremental: bool, blocks: int, cores: int, fewest: int = 1) -> int:
    """How many segments give every core work, ``fewest`` at least; 1 where that isn't possible or needed."""
    splittable = incremental and not any(cascade.axis in o.axes for o in cascade.outputs)
    if not splittable:
        return 1
    if blocks >= BLOCKS_PER_CORE * cores:
        return fewest
    wanted = -(-BLOCKS_PER_CORE * cores // max(blocks, 1))
    return max(min(wanted, cascade.axis.extent // SHORTEST_SEGMENT), fewest)
