"""Rows of a matrix product that lie one after another, as one axis: blocks share them out whatever the batch is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, axis, load, loads, substitute, transform


def flatten_rows(cascade: Cascade) -> Cascade:
    """Merge neighbouring axes that every tensor has side by side, or not at all.

    Tensors keep their elements and their order, in fewer dimensions.

    Args:
        cascade: one matrix product: a reduction without producers or epilogues.
    """
    merged = cascade
    while (pair := next(_mergeable(merged), None)) is not None:
        merged = pair.merged(merged)
    return merged


def _mergeable(cascade: Cascade) -> Iterator[_Pair]:
    (reduction,) = cascade.reductions
    for outer, inner in pairwise(reduction.axes):
        pair = _Pair(outer, inner)
        if all(map(pair.fits, _accesses(cascade))):
            yield pair


def _accesses(cascade: Cascade) -> list[Expr]:
    """Every value, and every element stored."""
    stored = [load(output.tensor, *output.indices) for output in cascade.outputs]
    return [*stored, *(output.value for output in cascade.outputs), *(r.map for r in cascade.reductions)]


@dataclass(frozen=True)
class _Pair:
    """Two axes of a result, the inner one next to the outer."""

    outer: Axis
    inner: Axis

    @property
    def axis(self) -> Axis:
        """Both in one."""
        return axis(f"{self.outer.name}_{self.inner.name}", self.outer.extent * self.inner.extent)

    def fits(self, value: Expr) -> bool:
        """Whether a value uses them only as neighbouring positions that cover their dimensions."""
        used = {self.outer, self.inner}
        if not used & axes_of(value):
            return True
        placed = [node for node in loads(value) if used & axes_of(node)]
        if any(self._place(node) is None for node in placed):
            return False
        hidden = {node: load(Tensor(f"hidden{n}", (), node.dtype)) for n, node in enumerate(placed)}
        return not used & axes_of(substitute(value, hidden))

    def merged(self, cascade: Cascade) -> Cascade:
        """The cascade with one axis for both."""
        return replace(
            cascade,
            rows=self._axes(cascade.rows),
            inputs=tuple(self._tensor(cascade, tensor) for tensor in cascade.inputs),
            reductions=tuple(self._reduction(item) for item in cascade.reductions),
            outputs=tuple(self._output(item) for item in cascade.outputs),
        )

    def _place(self, node: Load) -> int | None:
        """The dimension of the outer axis; ``None`` where the two aren't neighbours that cover theirs."""
        for place, positions in enumerate(pairwise(node.indices)):
            covered = node.tensor.shape[place : place + 2] == (self.outer.extent, self.inner.extent)
            if positions == (self.outer, self.inner) and covered:
                others = (*node.indices[:place], *node.indices[place + 2 :])
                return None if any({self.outer, self.inner} & axes_of(other) for other in others) else place
        return None

    def _axes(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """With the new axis where the outer one was."""
        return tuple(self.axis if a == self.outer else a for a in axes if a != self.inner)

    def _load(self, node: Load) -> Load:
        place = self._place(node)
        if place is None:
            return node
        shape = node.tensor.shape
        flat = replace(node.tensor, shape=(*shape[:place], self.axis.extent, *shape[place + 2 :]))
        return load(flat, *node.indices[:place], self.axis, *node.indices[place + 2 :])

    def _tensor(self, cascade: Cascade, tensor: Tensor) -> Tensor:
        """As its loads have it afterwards."""
        nodes = [node for value in _accesses(cascade) for node in loads(value) if node.tensor == tensor]
        return self._load(nodes[0]).tensor if nodes else tensor

    def _expr(self, value: Expr) -> Expr:
        return transform(value, lambda node: self._load(node) if isinstance(node, Load) else node)

    def _reduction(self, item: Reduction) -> Reduction:
        axes = self._axes(item.axes)
        result = replace(item.result, shape=tuple(a.extent for a in axes))
        return replace(item, result=result, axes=axes, map=self._expr(item.map))

    def _output(self, item: Output) -> Output:
        stored = self._load(load(item.tensor, *item.indices))
        return Output(stored.tensor, self._axes(item.axes), stored.indices, self._expr(item.value))
