"""Run a cascade and its derivation on arrays, with NumPy: what the recurrences mean.

The shared axis is cut into segments and each segment into tiles. A segment is folded tile by tile; segments
are then merged pairwise by the very same rule. Used by the certificate and the tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from redfuser.algebra.derivation import Derivation, Recurrence
from redfuser.cascade.combiners import accumulate, identity, join
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Expr, Tensor
from redfuser.expr.evaluate import convert, evaluate, open_mesh

Array = np.ndarray[Any, Any]
Values = dict[Tensor, Array]

TRANSFORM: dict[str, np.ufunc] = {
    "mul": np.multiply,
    "add": np.add,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
}


def direct(cascade: Cascade, tensors: Mapping[Tensor, Array], dtype: str | None = "float64") -> Values:
    """The unfused cascade: every producer and reduction, one after another over the whole axis."""
    values: Values = dict(tensors)
    for reduction in (*cascade.producers, *cascade.reductions):
        values[reduction.result] = reduced(reduction, reduction.map, values, range(reduction.over.extent), dtype)
    return values


def reduced(reduction: Reduction, element: Expr, values: Values, part: range, dtype: str | None) -> Array:
    """⊕ of ``element`` over part of the reduction's axis, one value for each point of its axes."""
    axes = (*reduction.element_axes, reduction.over)
    mesh = open_mesh(axes, {reduction.over: part})
    shape = (*(a.extent for a in axes[:-1]), len(part))
    elements = np.broadcast_to(evaluate(element, values, mesh, dtype), shape)
    empty = np.full(reduction.result.shape, identity(reduction.combiner, elements.dtype), elements.dtype)
    with np.errstate(all="ignore"):
        return accumulate(reduction.combiner, empty, elements)


class Replay:
    """Folds and merges by the recurrences of a derivation.

    Args:
        cascade: what was derived.
        derivation: an incremental one.
        tensors: contents of the cascade's inputs.
        dtype: as in :func:`redfuser.expr.evaluate.evaluate`.
    """

    def __init__(
        self,
        cascade: Cascade,
        derivation: Derivation,
        tensors: Mapping[Tensor, Array],
        dtype: str | None = "float64",
    ) -> None:
        self.cascade = cascade
        self.derivation = derivation
        self.dtype = dtype
        self.inputs: Values = dict(tensors)
        for producer in cascade.producers:
            whole = range(producer.over.extent)
            self.inputs[producer.result] = reduced(producer, producer.map, self.inputs, whole, dtype)

    def run(self, segments: Sequence[Sequence[range]]) -> Values:
        """Fold every segment's tiles, merge the segments in order and finish; gives every reduction's value."""
        states = [self.fold(tiles) for tiles in segments]
        merged = states[0]
        for other in states[1:]:
            merged = self.merge(merged, other)
        return self.finish(merged)

    def fold(self, tiles: Sequence[range]) -> Values:
        """The state after the tiles of one segment."""
        state = self._empty()
        for tile in tiles:
            state = self._step([state], tile)
        return state

    def merge(self, one: Values, other: Values) -> Values:
        """The state of two disjoint segments together."""
        return self._step([one, other], range(0))

    def finish(self, state: Values) -> Values:
        """Final values of the reductions, each from its state and the final values before it."""
        final: Values = {}
        for reduction, recurrence in self._items():
            values = {**self.inputs, **state, **final}
            final[reduction.result] = self._at(reduction, recurrence.finish, values)
        return final

    def _items(self) -> list[tuple[Reduction, Recurrence]]:
        return list(zip(self.cascade.reductions, self.derivation.recurrences, strict=True))

    def _at(self, reduction: Reduction, expr: Expr, values: Values) -> Array:
        """``expr`` at every point of the reduction's axes."""
        value = evaluate(expr, values, open_mesh(reduction.axes), self.dtype)
        return np.broadcast_to(value, tuple(a.extent for a in reduction.axes))

    def _empty(self) -> Values:
        state: Values = {}
        for reduction, recurrence in self._items():
            for part in recurrence.state:
                kind = convert(np.zeros(0), part.tensor.dtype, self.dtype).dtype
                state[part.tensor] = np.full(part.tensor.shape, identity(part.combiner, kind), kind)
            self._close(state, reduction, recurrence)
        return state

    def _close(self, state: Values, reduction: Reduction, recurrence: Recurrence) -> None:
        """Bring the running value and the base point up to date."""
        state[reduction.result] = state[recurrence.state[0].tensor]
        if recurrence.base is not None:
            at = Tensor(f"{reduction.result.name}.base", reduction.result.shape, reduction.result.dtype)
            state[at] = self._at(reduction, recurrence.base, {**self.inputs, **state})

    def _step(self, states: list[Values], tile: range) -> Values:
        """Re-base each state to the common base points and combine them with the tile."""
        new: Values = {}
        for reduction, recurrence in self._items():
            for place, part in enumerate(recurrence.state):
                pieces = [self._rebased(reduction, recurrence, place, old, new) for old in states]
                if len(tile):
                    values = {**self.inputs, **new}
                    pieces.append(reduced(reduction, part.element, values, tile, self.dtype))
                total = pieces[0]
                with np.errstate(all="ignore"):
                    for piece in pieces[1:]:
                        total = join(part.combiner, total, piece)
                new[part.tensor] = np.asarray(total)
            self._close(new, reduction, recurrence)
        return new

    def _rebased(self, reduction: Reduction, recurrence: Recurrence, place: int, old: Values, new: Values) -> Array:
        part = recurrence.state[place]
        if not part.correction:
            return old[part.tensor]
        before = {Tensor(f"{t.name}.previous", t.shape, t.dtype): value for t, value in old.items()}
        values = {**self.inputs, **new, **before}
        total: Array | None = None
        with np.errstate(all="ignore"):
            for factor, source in zip(part.correction, recurrence.state, strict=True):
                if factor is None:
                    continue
                rho = self._at(reduction, factor, values)
                piece = TRANSFORM[recurrence.transform](old[source.tensor], rho)
                total = piece if total is None else join(part.combiner, total, piece)
        assert total is not None
        return np.asarray(total)
