"""Whether a phase's blocks store every element of a tensor exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from redfuser.expr import Axis, Expr, Op, axes_of, op
from redfuser.expr.evaluate import evaluate, open_mesh
from redfuser.extents import is_symbolic
from redfuser.indexing import linear
from redfuser.tile.ir import Store, Stream, Tile

#: Points enumerated where reasoning about axes doesn't decide.
_LIMIT = 1 << 20


def bounds_of(value: Expr) -> tuple[int, int]:
    """Least and greatest value that an index expression may take."""
    if isinstance(value, Op) and value.name == "select":
        lows, highs = zip(*map(bounds_of, value.args[1:]), strict=True)
        return min(lows), max(highs)
    if isinstance(value, Op) and value.name in ("min", "max"):
        lows, highs = zip(*map(bounds_of, value.args), strict=True)
        join = min if value.name == "min" else max
        return join(lows), join(highs)
    return linear(value).bounds()


def distance(stream: Stream) -> int | None:
    """Points of a stream that runs from its start for a fixed distance, or less at the axis' end; else None."""
    stop = stream.stop
    ends = stop.args if isinstance(stop, Op) and stop.name == "min" else (stop,)
    lengths = [linear(op("sub", end, stream.start)) for end in ends]
    return next((int(form.constant) for form in lengths if not form.terms and not is_symbolic(form.constant)), None)


@dataclass(frozen=True)
class Coverage:
    """Where a store stands: the grid and the streams around it."""

    grid: Sequence[Tile]
    streams: Sequence[Stream]

    def problem(self, store: Store) -> str:
        """What is wrong with the elements stored; empty if each is stored once.

        The points of the store's axes are visited once each (grid, streams), and its indices take them one to
        one onto the tensor.
        """
        if len(store.indices) != len(store.tensor.shape):
            return "one index for each dimension is needed"
        splitting = {a for stream in self.streams for a in axes_of(stream.start) | axes_of(stream.stop)}
        for tile in self.grid:
            if tile.count > 1 and tile.axis not in store.axes and tile.axis not in splitting:
                return f"every block along {tile.axis.name} stores the same elements"
        for stream in self.streams:
            if stream.axis not in store.axes:
                return f"every tile of {stream.axis.name} stores the same elements"
            if not self._tiles_axis(stream):
                return f"the streams don't cover {stream.axis.name} exactly once"
        if prod(a.extent for a in store.axes) != store.tensor.size:
            return "the axes have another number of points than the tensor has elements"
        if any(low < 0 or high >= max(n, 1) for (low, high), n in zip(_bounds(store), store.tensor.shape, strict=True)):
            return "an index leaves the tensor"
        return "" if _one_to_one(store) else "the indices don't reach every element exactly once"

    def _tiles_axis(self, stream: Stream) -> bool:
        """Whether the ranges of all blocks that differ in the bounds partition the axis."""
        used = sorted(axes_of(stream.start) | axes_of(stream.stop), key=lambda a: a.name)
        ranges = []
        for point in product(*(range(a.extent) for a in used)):
            mesh: dict[Axis, Any] = {a: np.asarray(n) for a, n in zip(used, point, strict=True)}
            start, stop = (int(evaluate(bound, {}, mesh)) for bound in (stream.start, stream.stop))
            if start < stop:
                ranges.append((start, stop))
        ends = 0
        for start, stop in sorted(ranges):
            if start != ends:
                return False
            ends = stop
        return ends == stream.axis.extent


def _bounds(store: Store) -> list[tuple[int, int]]:
    return [bounds_of(position) for position in store.indices]


def _one_to_one(store: Store) -> bool:
    """Distinct axes are; anything else is enumerated while that is cheap."""
    wide = [position for position, extent in zip(store.indices, store.tensor.shape, strict=True) if extent > 1]
    if all(isinstance(position, Axis) for position in wide) and len(set(wide)) == len(wide):
        return True
    if store.tensor.size > _LIMIT or not store.tensor.size:
        return True
    mesh = open_mesh(store.axes)
    shape = tuple(a.extent for a in store.axes)
    where = [np.broadcast_to(evaluate(i, {}, mesh), shape).ravel() for i in store.indices]
    flat = np.ravel_multi_index(where, store.tensor.shape) if where else np.zeros(1, dtype=np.int64)
    return bool(np.bincount(flat, minlength=store.tensor.size).max() == 1)
