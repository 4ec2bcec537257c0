"""Schedules of lone matrix products for GPUs, best first by a small model of their time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu.emission.geometry import power_of_two
from redfuser.codegen.gpu.emission.products import SQUARE
from redfuser.expr import Axis, axes_of
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tile.products import split_product

#: Rows and columns of a block's tile, and its threads.
HOPPER = ((128, 256, 256), (128, 128, 256), (128, 64, 256), (64, 128, 128), (64, 64, 128), (64, 32, 128))
AMPERE = ((128, 128, 256), (64, 128, 128), (64, 64, 128), (64, 32, 128))
#: Bytes of a tile along the axis summed: what one swizzled row of shared memory holds.
LINE_BYTES = 128
#: Pieces of the axis summed, each summed by a block of its own, and the shortest worth it.
SEGMENTS, SHORTEST_SEGMENT = (1, 2, 4, 8), 128
#: Pipeline stages, the most first.
STAGES = (3, 2)
#: Microseconds until a block's pipeline is full, and of a launch more; bytes that a multiprocessor gets from the
#: second-level cache in a microsecond.
FILL_US, LAUNCH_US, CACHE_BYTES = 1.5, 3.0, 60_000.0
#: Rows·columns/(rows + columns) of a tile that reaches half the peak rate: operands pass through shared memory.
HALF_RATE_EDGE = 12
#: Schedules to try, at most.
MOST = 6


@dataclass(frozen=True)
class ProductShape:
    """A lone matrix product: the axes of its rows and columns, and the axis summed.

    Args:
        blocks: products of the same shape beside each other.
        item: bytes of an element as it is multiplied.
    """

    rows: Axis
    columns: Axis
    over: Axis
    blocks: int
    item: int


def product_shape(cascade: Cascade) -> ProductShape | None:
    """The shape of a cascade that is one matrix product and what follows it; ``None`` for any other cascade."""
    if len(cascade.reductions) != 1 or cascade.producers or cascade.epilogues:
        return None
    (reduction,) = cascade.reductions
    operands = split_product(reduction.map, reduction.axes, cascade.axis, lambda axis: axis.extent)
    if reduction.combiner != "sum" or operands is None or any(cascade.axis in o.axes for o in cascade.outputs):
        return None
    left, right = (axes_of(operand) for operand in operands)
    rows = [axis for axis in reduction.axes if axis not in right and axis.extent > 1]
    columns = [axis for axis in reduction.axes if axis not in left and axis.extent > 1]
    if not rows or len(columns) != 1:
        return None
    widest = max(rows, key=lambda axis: axis.extent)
    others = prod(axis.extent for axis in reduction.axes if axis not in (widest, columns[0]))
    return ProductShape(widest, columns[0], cascade.axis, others, _item(cascade))


def _item(cascade: Cascade) -> int:
    """Bytes of an element as it is multiplied."""
    if cascade.reductions[0].result.dtype == "int32":
        return 1
    return 2 if any(t.dtype in ("float16", "bfloat16") for t in cascade.inputs) else 4


def product_schedules(shape: ProductShape, incremental: bool, target: GpuTarget) -> tuple[Schedule, ...]:
    """Schedules to try in turn.

    Args:
        incremental: whether the axis summed may be cut in pieces.
    """
    found = sorted(_candidates(shape, incremental, target), key=lambda item: item[0])
    return tuple(schedule for _, schedule in found[:MOST])


def product_us(shape: ProductShape, schedule: Schedule, target: GpuTarget) -> float:
    """The modelled time of one execution, launch included, in microseconds."""
    rows, columns = (power_of_two(schedule.tile(axis)) for axis in (shape.rows, shape.columns))
    return LAUNCH_US + _microseconds(shape, rows, columns, schedule.segments, target) * _shallow(schedule)


def _shallow(schedule: Schedule) -> float:
    """How much longer it takes with fewer stages than the most."""
    return 1 + 0.02 * (STAGES[0] - dict(schedule.options)["stages"])


def _candidates(shape: ProductShape, incremental: bool, target: GpuTarget) -> Iterator[tuple[float, Schedule]]:
    length = LINE_BYTES // shape.item
    shapes = HOPPER if target.has("wgmma") else AMPERE
    for (rows, columns, threads), pieces, stages in product(shapes, SEGMENTS, STAGES):
        needless = rows > 64 and shape.rows.extent <= rows // 2
        short = pieces > 1 and (not incremental or shape.over.extent < pieces * SHORTEST_SEGMENT)
        shared = stages * length * (rows + columns) * shape.item
        if needless or short or shared > target.shared_block_kb * 1024:
            continue
        tiles = ((shape.rows, rows), (shape.columns, columns), (shape.over, length))
        named = tuple((axis.name, min(size, axis.extent)) for axis, size in tiles)
        strategy = "multi-segment" if pieces > 1 else "single-segment" if incremental else "resident"
        square = ((SQUARE, 1),) if not target.has("wgmma") and rows >= 64 and columns >= 64 else ()
        options = (("threads", threads), ("stages", stages), *square)
        schedule = Schedule(strategy, named, pieces, "", options)
        yield _microseconds(shape, rows, columns, pieces, target) * _shallow(schedule), schedule


def _microseconds(shape: ProductShape, rows: int, columns: int, pieces: int, target: GpuTarget) -> float:
    """Waves of blocks, each as long as its products or its operands take; a merge for a sum in pieces."""
    m, n, k = shape.rows.extent, shape.columns.extent, shape.over.extent
    blocks = shape.blocks * ceil(m / rows) * ceil(n / columns) * pieces
    peak = {1: target.int8_tops, 2: target.fp16_tflops, 4: target.tf32_tflops}[shape.item]
    rate = peak * 1e6 / target.multiprocessors
    edge = rows * columns / (rows + columns)
    multiplying = 2 * rows * columns * k / pieces / (rate * edge / (edge + HALF_RATE_EDGE))
    loading = (rows + columns) * k / pieces * shape.item / CACHE_BYTES
    compulsory = shape.blocks * (m * k + k * n + m * n) * shape.item / (target.bandwidth_gbs * 1e3)
    waves = ceil(blocks / target.multiprocessors)
    merging = LAUNCH_US + pieces * shape.blocks * m * n * 8 / (target.bandwidth_gbs * 1e3) if pieces > 1 else 0.0
    return max(waves * (max(multiplying, loading) + FILL_US), compulsory) + merging
