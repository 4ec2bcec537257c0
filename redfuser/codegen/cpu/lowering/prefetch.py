"""Prefetching for what waits for memory: while one pass computes, memory for what comes next is brought closer.

A row kernel reads a row, computes on it in cache and writes it, and decoding takes a tile of keys and one of values in
turn: without help, memory and processor take turns. So a prefetch stands beside the work on as many points, in one loop
with it: a burst of them makes the processor wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from redfuser.codegen.cpu.lowering.storage import Layout
from redfuser.codegen.cpu.lowering.strides import Strides, value_loads
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.builder import arithmetic
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, index, op, substitute
from redfuser.expr.evaluate import numpy_dtype
from redfuser.extents import most
from redfuser.tile.ir import Contract, Map, Phase, Reduce, Statement, Store, Stream

#: A shorter row is brought into the first-level cache, where it leaves room for the present one. A longer one would
#: push that out; and is long enough to be read ahead of from the second level.
SHORT_BYTES = 2048


@dataclass(frozen=True)
class Prefetch:
    """Bring ``tensor[indices]`` closer, for every point of ``axes`` in the current tile.

    Args:
        write: whether it will be written, or else read.
        nearest: whether into the first-level cache, or else the second.
    """

    tensor: Tensor
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    write: bool
    nearest: bool


def plan_prefetches(
    phase: Phase,
    layouts: Mapping[Tensor, Layout],
    lanes: Axis | None,
    machine: Machine,
    uncached: Collection[Tensor] = (),
) -> dict[Stream, tuple[Prefetch, ...]]:
    """What each stream along the lanes does for later ones: lines for their stores, and the next block's row.

    Only for tensors larger than the cache, and not in the first stream, which waits for memory itself.

    Args:
        uncached: tensors that are written past the caches, without lines of their own there.
    """
    streams = [item for item in phase.body if isinstance(item, Stream) and item.axis == lanes]
    if lanes is None or len(streams) < 2 or any(isinstance(s, Contract) for stream in streams for s in stream.body):
        return {}
    planned: dict[Stream, list[Prefetch]] = {stream: [] for stream in streams[1:]}
    for before, stream in pairwise(streams):
        stores = [s for s in stream.body if isinstance(s, Store) and lanes in s.axes and s.tensor not in uncached]
        planned.get(before, []).extend(Prefetch(s.tensor, s.axes, s.indices, write=True, nearest=True) for s in stores)
    strides = Strides(layouts, {lanes: most(lanes.extent)})
    planned[streams[-2] if len(streams) > 2 else streams[-1]] += [
        item for load in _first_reads(streams[0]) if (item := _next_block(load, phase, lanes, strides)) is not None
    ]
    return {s: tuple(p for p in items if _large(p.tensor, machine)) for s, items in planned.items()}


def _first_reads(stream: Stream) -> list[Load]:
    values = [s.value for s in stream.body if isinstance(s, Map | Reduce | Store)]
    return list(dict.fromkeys(node for value in values for node in value_loads(value)))


def _next_block(load: Load, phase: Phase, lanes: Axis, strides: Strides) -> Prefetch | None:
    """The same read in the block that probably comes next; ``None`` if it reads the same or no adjacent elements."""
    moving = [tile for tile in phase.grid if tile.count > 1]
    if load.tensor in strides.layouts or not moving or not all(map(arithmetic, load.indices)):
        return None
    row = moving[-1]
    if row.axis not in axes_of(load) or strides.of_load(load, lanes) != 1:
        return None
    ahead = op("min", op("add", row.axis, index(row.size)), index(row.axis.extent - 1))
    indices = tuple(substitute(i, {row.axis: ahead}) for i in load.indices)
    short = most(lanes.extent) * numpy_dtype(load.tensor.dtype).itemsize < SHORT_BYTES
    return Prefetch(load.tensor, (lanes,), indices, write=False, nearest=short)


@dataclass(frozen=True)
class _MatrixRead:
    """A reduction that reads rows of a matrix, each element once: ``across`` is the axis that neighbours lie along."""

    reduction: Reduce
    load: Load
    across: Axis


def plan_matrices(phase: Phase, layouts: Mapping[Tensor, Layout], machine: Machine) -> dict[Reduce, Prefetch]:
    """What reductions over matrices do for each other: beside one, the tile that the next will read is brought.

    Where tiles are multiplied, arithmetic hides what memory takes. Matrices that fit the last-level cache together may
    lie there, and out of it the processor's own prefetching is faster: asking took 1.7 times as long on a Zen 4.
    """
    sizes = {tile.axis: tile.size for tile in phase.grid}
    planned: dict[Reduce, Prefetch] = {}
    for stream in (item for item in phase.body if isinstance(item, Stream)):
        strides = Strides(layouts, {**sizes, stream.axis: stream.tile})
        multiplies = any(isinstance(s, Contract) for s in stream.body)
        reads = [] if multiplies else [r for s in stream.body if (r := _matrix_read(s, stream, strides)) is not None]
        if len(reads) < 2 or sum(_bytes(t) for t in {r.load.tensor for r in reads}) <= machine.last_level_bytes:
            continue
        for read, after in zip(reads, [*reads[1:], *reads[:1]], strict=True):
            if read.across.extent == after.across.extent:
                planned[read.reduction] = _next_tile(read, after, stream, later=after is reads[0])
    return planned


def _matrix_read(statement: Statement, stream: Stream, strides: Strides) -> _MatrixRead | None:
    if not isinstance(statement, Reduce):
        return None

    def wide(axes: Iterable[Axis]) -> frozenset[Axis]:
        return frozenset(a for a in axes if strides.sizes.get(a, most(a.extent)) > 1)

    for load in value_loads(statement.value):
        axes = wide(axes_of(load))
        others = axes - {stream.axis}
        if load.tensor in strides.layouts or len(others) != 1 or axes != wide(statement.space):
            continue
        (across,) = others
        along = replace(strides, sizes={**strides.sizes, across: most(across.extent)})
        if all(map(arithmetic, load.indices)) and along.of_load(load, across) == 1:
            return _MatrixRead(statement, load, across)
    return None


def _next_tile(read: _MatrixRead, after: _MatrixRead, stream: Stream, later: bool) -> Prefetch:
    """What ``after`` reads, at the points of ``read``; ``later`` in the stream's next tile."""
    places: dict[Expr, Expr] = {after.across: read.across}
    if later:
        ahead = op("add", stream.axis, index(stream.tile))
        places[stream.axis] = op("min", ahead, index(stream.axis.extent - 1))
    indices = tuple(substitute(i, places) for i in after.load.indices)
    return Prefetch(after.load.tensor, read.reduction.space, indices, write=False, nearest=False)


def _large(tensor: Tensor, machine: Machine) -> bool:
    return _bytes(tensor) > machine.cache_bytes


def _bytes(tensor: Tensor) -> int:
    return most(tensor.size) * numpy_dtype(tensor.dtype).itemsize
