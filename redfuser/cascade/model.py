"""What detection hands on: a cascade of reductions in one coordinate system. No TVM.

All maps are written in the cascade's own axes: the *rows* (independent problems), the shared *axis*
that every reduction folds, and further axes that a single reduction carries (the value dimension of
attention) or contracts (the head dimension of a producer).
"""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.expr import PAIR, Axis, Expr, Tensor, axes_of, load, loads

#: combiner -> its identity; ``topk`` and ``bottomk`` keep a list, of which every place starts as given
IDENTITIES: dict[str, float] = {
    **{"sum": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")},
    **{"topk": float("-inf"), "bottomk": float("inf")},
}
#: combiners that keep the best elements as a list, the best first
LISTS = frozenset({"topk", "bottomk"})


@dataclass(frozen=True)
class Reduction:
    """``result[axes] = ⊕ over `over` of map``.

    Args:
        result: the tensor defined; its shape is the extents of ``axes``.
        combiner: a key of :data:`IDENTITIES`.
        axes: axes the result keeps.
        over: the axis folded away.
        map: one element; loads earlier results only as ``result[its own axes]``.
        rank: of :data:`LISTS`, the last of ``axes``: the place in the list, which the map doesn't use.
    """

    result: Tensor
    combiner: str
    axes: tuple[Axis, ...]
    over: Axis
    map: Expr
    rank: Axis | None = None

    @property
    def element_axes(self) -> tuple[Axis, ...]:
        """The axes that elements differ along, ``over`` aside."""
        return self.axes if self.rank is None else self.axes[:-1]

    @property
    def value(self) -> Expr:
        """The result as later maps load it."""
        return load(self.result, *self.axes)

    def __str__(self) -> str:
        where = ", ".join(a.name for a in self.axes)
        fold = self.combiner if self.rank is None else f"{self.combiner}<{self.rank.extent}>"
        return f"{self.result.name}[{where}] = {fold} over {self.over.name}<{self.over.extent} of {self.map}"


@dataclass(frozen=True)
class Output:
    """``tensor[indices] = value`` for every point of ``axes``.

    ``value`` may load inputs, results of reductions and (with the shared axis among ``axes``) producers.
    ``indices`` is a bijection between ``axes`` and the tensor's elements.
    """

    tensor: Tensor
    axes: tuple[Axis, ...]
    indices: tuple[Expr, ...]
    value: Expr

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.indices))
        return f"{self.tensor.name}[{inner}] <- {self.value}  for {', '.join(a.name for a in self.axes)}"


@dataclass(frozen=True)
class Cascade:
    """A maximal convex set of reductions over one shared axis, with what feeds it and what leaves it.

    Args:
        name: unique in the module, a safe identifier (never taken from the model file).
        rows: axes of the independent problems; every reduction over ``axis`` keeps them all or a subset.
        axis: the shared axis.
        inputs: tensors read from outside.
        producers: tile-local contractions whose results are indexed by ``axis`` (q·k over d).
        reductions: the reductions over ``axis``, each after those it depends on.
        outputs: what the rest of the model reads.
        onnx_nodes: names of the ONNX nodes covered, in graph order.
        epilogues: reductions over the places of a list that ``reductions`` select: few elements, folded once it is
            final (the sum by which the selected weights are divided).
        normal: those of ``inputs`` that are known to hold no subnormal number.
    """

    name: str
    rows: tuple[Axis, ...]
    axis: Axis
    inputs: tuple[Tensor, ...]
    producers: tuple[Reduction, ...]
    reductions: tuple[Reduction, ...]
    outputs: tuple[Output, ...]
    onnx_nodes: tuple[str, ...] = ()
    epilogues: tuple[Reduction, ...] = ()
    normal: tuple[Tensor, ...] = ()

    @property
    def selects(self) -> bool:
        """Whether a reduction picks elements by their position."""
        return any(reduction.result.dtype == PAIR for reduction in self.reductions)

    def dependencies(self, reduction: Reduction) -> tuple[Reduction, ...]:
        """The earlier reductions over the shared axis that ``reduction``'s map loads."""
        used = {node.tensor for node in loads(reduction.map)}
        return tuple(other for other in self.reductions if other.result in used)

    def verify(self) -> None:
        """Check the invariants above.

        Raises:
            AssertionError: names the reduction and the broken invariant.
        """
        known = frozenset(self.inputs)
        assert known >= {*self.normal}, f"{[t.name for t in self.normal]}: not all are inputs"
        defined: dict[Tensor, Expr] = {}
        ranks = {reduction.rank for reduction in self.reductions}
        for item in (*self.producers, *self.reductions, *self.epilogues):
            assert item.combiner in IDENTITIES, f"{item.result.name}: unknown combiner {item.combiner}"
            assert item.result.shape == tuple(a.extent for a in item.axes), f"{item.result.name}: shape"
            assert (item.rank is not None) == (item.combiner in LISTS), f"{item.result.name}: a list has places"
            assert item.rank is None or item.axes[-1:] == (item.rank,), f"{item.result.name}: places come last"
            loose = axes_of(item.map) - set(item.element_axes) - {item.over}
            assert not loose, f"{item.result.name}: map uses {[a.name for a in loose]} outside its axes"
            self._verify_loads(item.result.name, item.map, known, defined)
            defined[item.result] = item.value
        for producer in self.producers:
            assert self.axis in producer.axes, f"{producer.result.name}: a producer keeps the shared axis"
        for reduction in self.reductions:
            assert reduction.over == self.axis, f"{reduction.result.name}: reduces another axis"
        for epilogue in self.epilogues:
            assert epilogue.over in ranks, f"{epilogue.result.name}: doesn't fold the places of a list"
        for output in self.outputs:
            loose = axes_of(output.value) - set(output.axes)
            assert not loose, f"{output.tensor.name}: value uses {[a.name for a in loose]} outside its axes"
            self._verify_loads(output.tensor.name, output.value, known, defined)

    @staticmethod
    def _verify_loads(where: str, expr: Expr, known: frozenset[Tensor], defined: dict[Tensor, Expr]) -> None:
        for node in loads(expr):
            if node.tensor in defined:
                assert node == defined[node.tensor], f"{where}: {node} is not loaded at its own axes"
            else:
                assert node.tensor in known, f"{where}: loads unknown {node.tensor.name}"

    def __str__(self) -> str:
        rows = ", ".join(f"{a.name}<{a.extent}" for a in self.rows)
        lines = [f"cascade {self.name} rows({rows}) axis {self.axis.name}<{self.axis.extent}"]
        lines += [f"  input {tensor}" for tensor in self.inputs]
        lines += [f"  producer {item}" for item in self.producers]
        lines += [f"  {item}" for item in self.reductions]
        lines += [f"  epilogue {item}" for item in self.epilogues]
        lines += [f"  output {item}" for item in self.outputs]
        return "\n".join(lines)
