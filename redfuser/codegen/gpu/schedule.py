"""Schedules worth trying on a GPU, the most promising first. No TVM.

Without a device nothing can be timed: shapes and the machine's proportions decide, and the compiler's report on
registers and shared memory decides which of them can run.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.expr import Axis
from redfuser.targets import GpuTarget
from redfuser.tile.common import streams
from redfuser.tile.ir import Schedule
from redfuser.tile.schedule import contiguous_axis, has_products, stationary_row

#: Rows and streamed points of a block with matrix products, threads, stages of the pipeline.
AMPERE = ((64, 64, 128, 2), (64, 64, 128, 1), (64, 32, 128, 1), (32, 32, 64, 1), (16, 32, 32, 1))
HOPPER = ((128, 128, 256, 2), (128, 64, 256, 2), (64, 128, 128, 2), *AMPERE)

#: Points of a row that one block holds at once, and the least worth a segment of its own.
ROW_POINTS, SHORTEST_SEGMENT = 8192, 512
#: Neighbouring rows of a block where they, not the points of a row, lie side by side in memory.
ROW_TILE = 32
#: Blocks for each multiprocessor before rows count as many.
BLOCKS_EACH = 2


def candidates(cascade: Cascade, derivation: Derivation, target: GpuTarget) -> tuple[Schedule, ...]:
    """Schedules in the order they should be tried; never empty.

    Args:
        cascade: verified.
        derivation: its verdict; without an incremental form only ``resident`` is possible.
    """
    incremental = streams(cascade, derivation)
    found = _products(cascade, incremental, target) if has_products(cascade) else _rows(cascade, incremental, target)
    return tuple(dict.fromkeys(found))


def _products(cascade: Cascade, incremental: bool, target: GpuTarget) -> Iterator[Schedule]:
    rows = stationary_row(cascade)
    for row_tile, stream, threads, stages in HOPPER if target.has("wgmma") else AMPERE:
        tile = _tile(rows, row_tile) if rows is not None else 1
        if threads > 32 and _power_of_two(tile) < row_tile:
            continue  # warps without rows
        tiles = [(rows.name, tile)] if rows is not None and tile > 1 else []
        tiles.append((cascade.axis.name, _tile(cascade.axis, stream)))
        blocks = prod(-(-a.extent // tile) if a == rows else a.extent for a in cascade.rows)
        segments = _segments(cascade, incremental, blocks, target)
        strategy = "multi-segment" if segments > 1 else "single-segment" if incremental else "resident"
        yield _schedule(strategy, tiles, segments, threads, stages)


def _rows(cascade: Cascade, incremental: bool, target: GpuTarget) -> Iterator[Schedule]:
    along = contiguous_axis(cascade)
    across = along if along in cascade.rows and along is not None and along.extent > 1 else None
    tile = _tile(across, ROW_TILE) if across is not None else 1
    blocks = prod(-(-a.extent // tile) if a == across else a.extent for a in cascade.rows)
    segments = _segments(cascade, incremental, blocks, target)
    row_tiles = [(across.name, tile)] if across is not None and tile > 1 else []
    for points in (ROW_POINTS // tile, ROW_POINTS // tile // 4):
        stream = _tile(cascade.axis, max(points, 1))
        tiles = [*row_tiles, (cascade.axis.name, stream)]
        threads = min(max(_power_of_two(stream * tile) // 8, 32), 256)
        if segments > 1:
            yield _schedule("multi-segment", tiles, segments, threads, 1)
        whole = stream >= cascade.axis.extent
        for strategy in ("resident", "single-segment") if whole else ("single-segment", "resident"):
            if strategy == "resident" or incremental:
                yield _schedule(strategy, tiles, 1, threads, 1)


def _schedule(strategy: str, tiles: list[tuple[str, int]], segments: int, threads: int, stages: int) -> Schedule:
    return Schedule(strategy, tuple(tiles), segments, "", (("stages", stages), ("threads", threads)))


def _tile(axis: Axis, wanted: int) -> int:
    """The whole axis where it is shorter than the tile."""
    return max(min(wanted, axis.extent), 1)


def _power_of_two(points: int) -> int:
    return 1 << max(points - 1, 0).bit_length()


def _segments(cascade: Cascade, incremental: bool, blocks: int, target: GpuTarget) -> int:
    """How many segments give every multiprocessor work; 1 where that isn't possible or needed."""
    splittable = incremental and not any(cascade.axis in output.axes for output in cascade.outputs)
    if not splittable or blocks >= BLOCKS_EACH * target.multiprocessors:
        return 1
    wanted = -(-BLOCKS_EACH * target.multiprocessors // max(blocks, 1))
    return max(min(wanted, cascade.axis.extent // SHORTEST_SEGMENT), 1)
