"""Cuts a definition where its conditions change, so that each piece is computed without them. No TVM.

Padding, concatenation and shifted copies lower to a choice between loads that are valid only on one side of a
boundary. Inside a piece the choice is made, and neighbours can be read as one vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise, product
from math import prod

from redfuser.cascade.graph import Definition
from redfuser.expr import INDEX, Axis, Expr, Op, index, op, walk
from redfuser.extents import is_symbolic
from redfuser.indexing import linear
from redfuser.indexing import replace as substitute

#: A definition with more pieces than this is left whole.
MOST_PIECES = 27

#: comparison -> how far past the boundary the answer changes, where the axis counts up
STEPS = {"lt": (0,), "ge": (0,), "le": (1,), "gt": (1,), "eq": (0, 1), "ne": (0, 1)}


def pieces(definition: Definition) -> list[tuple[Definition, tuple[int, ...]]]:
    """The definition in as many pieces as its conditions on single axes ask for.

    Returns:
        Definitions over axes of the pieces' extents, each with the place of its first element in the tensor.
    """
    if any(is_symbolic(axis.extent) for axis in definition.axes):
        return [(definition, ())]
    cuts = {axis: {0, axis.extent} for axis in definition.axes}
    for axis, place in _boundaries(definition.body):
        if axis in cuts and 0 < place < axis.extent:
            cuts[axis].add(place)
    spans = [list(pairwise(sorted(cuts[axis]))) for axis in definition.axes]
    if definition.is_reduction or not 1 < prod(map(len, spans)) <= MOST_PIECES:
        return [(definition, ())]
    return [_piece(definition, box) for box in product(*spans)]


def _piece(definition: Definition, box: tuple[tuple[int, int], ...]) -> tuple[Definition, tuple[int, ...]]:
    inner = [replace(axis, extent=last - first) for axis, (first, last) in zip(definition.axes, box, strict=True)]
    places = {
        axis: op("add", part, index(first)) for axis, part, (first, _) in zip(definition.axes, inner, box, strict=True)
    }
    body = substitute(definition.body, places)
    return replace(definition, axes=tuple(inner), body=body), tuple(first for first, _ in box)


def _boundaries(body: Expr) -> Iterator[tuple[Axis, int]]:
    """Axes and the points from which on the answer of a comparison may differ."""
    for node in walk(body):
        if not isinstance(node, Op) or node.name not in STEPS or node.args[0].dtype != INDEX:
            continue
        form = linear(op("sub", *node.args))
        if len(form.terms) == 1 and isinstance(form.terms[0][0], Axis) and abs(form.terms[0][1]) == 1:
            axis, sign = form.terms[0]
            assert isinstance(axis, Axis)
            for step in STEPS[node.name]:
                yield axis, -form.constant + step if sign > 0 else form.constant + 1 - step
