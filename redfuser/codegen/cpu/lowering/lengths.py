"""Over how many points a stream may run, and in what widths an axis is gone through where that is known late."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from redfuser.expr import Axis, Expr, Op, axes_of, axis, index, loads, op, substitute
from redfuser.expr.evaluate import evaluate, open_mesh
from redfuser.tile.ir import Stream


def narrower(width: int, lanes: int) -> Iterator[int]:
    """Widths to go through what is left with: quarters, whole vectors, points."""
    while width > lanes:
        yield width
        width = max(width // 4, lanes)
    if width > 1:
        yield width
    yield 1


def stream_lengths(stream: Stream) -> set[int]:
    """How many points a stream may run over, for all values of the axes that its bounds use.

    Positions read from memory are taken at both ends of the axis: bounds made of them are whole tiles, or the end.
    """
    lengths = set()
    for start, stop in product(_alternatives(stream.start, stream.axis), _alternatives(stream.stop, stream.axis)):
        mesh = open_mesh(sorted(axes_of(start) | axes_of(stop), key=lambda a: a.name))
        length = evaluate(op("max", op("sub", stop, start), index(0)), {}, mesh)
        lengths |= set(np.unique(length).tolist())
    return lengths or {0}


def _alternatives(bound: Expr, along: Axis) -> list[Expr]:
    """What a bound may be, whatever its conditions and positions in memory turn out to be."""
    if isinstance(bound, Op) and bound.name == "select":
        return [choice for branch in bound.args[1:] for choice in _alternatives(branch, along)]
    last = index(max(along.extent - 1, 0))
    ends = {node: op("mul", axis(f"end.{node}", 2), last) for node in loads(bound)}
    return [substitute(bound, ends)]
