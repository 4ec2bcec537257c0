"""Adversarial data for the float64 check of a derivation.

The cascade is made small first: axes are cut down, and every load of an input becomes a tensor of its own
over the axes that its indices use, with one more axis in front that counts scenarios. So scores reach the
values a check needs whatever producers, masks or tables they come from, and all scenarios run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Const, Expr, Load, Symbol, Tensor, axes_of, load, loads, substitute, transform, walk
from redfuser.extents import is_symbolic, most

Array = np.ndarray[Any, Any]
Scenario = Callable[[np.random.Generator, Array, bool], Array]

#: extents of the shared axis that are checked
LENGTHS = (1, 13)
_OTHER = 2


def _last(values: Array, count: int, filler: float) -> Array:
    result = values.copy()
    result[..., :count] = filler
    return result


#: name -> (generator, standard normal data with the shared axis last, whether the load feeds an extremum) -> data
SCENARIOS: dict[str, Scenario] = {
    "random": lambda g, x, score: x,
    "large range": lambda g, x, score: 40 * x,
    "-inf entries": lambda g, x, score: np.where(g.random(x.shape) < 0.5, -np.inf, x) if score else x,
    "leading -inf": lambda g, x, score: _last(x, x.shape[-1] // 2, -np.inf) if score else x,
    "all -inf": lambda g, x, score: np.full_like(x, -np.inf) if score else x,
    "all equal": lambda g, x, score: np.full_like(x, 0.7),
    "ties": lambda g, x, score: np.rint(x),
    "zeros": lambda g, x, score: np.zeros_like(x),
    "large mean": lambda g, x, score: x + 1e4,
    "ascending": lambda g, x, score: np.sort(x, axis=-1),
    "descending": lambda g, x, score: -np.sort(-x, axis=-1),
    "+inf entry": lambda g, x, score: _last(x, 1, np.inf) if score else x,
    "NaN entry": lambda g, x, score: _last(x, 1, np.nan) if score else x,
}
#: the scenarios that only differ in scores
MASKS = frozenset({"-inf entries", "leading -inf", "all -inf", "+inf entry", "NaN entry"})


class Small:
    """A cascade cut down to ``length`` elements, two points of each other axis, and the scenarios in front.

    Constants equal to the axis' extent, or its inverse, follow the axis: a mean stays a mean. Other symbolic sizes are
    small numbers.

    Args:
        cascade: any cascade.
        length: extent of the shared axis; no more than it has.
    """

    def __init__(self, cascade: Cascade, length: int) -> None:
        self.original = cascade
        self.length = min(length, most(cascade.axis.extent))
        self.scenario = Axis(cascade.axis.dtype, "scenario", len(SCENARIOS))
        self.axes = {cascade.axis: Axis(cascade.axis.dtype, cascade.axis.name, self.length)}
        for item in cascade.reductions:
            for other in item.axes:
                self.axes.setdefault(other, Axis(other.dtype, other.name, min(most(other.extent), _OTHER)))
        self.results = {item.result.name: item for item in cascade.reductions}
        self.inputs: dict[Load, Load] = {}
        self.cascade = self._cascade()

    def derivation(self, derivation: Derivation) -> Derivation:
        """The same recurrences over the small cascade's tensors."""
        items = []
        for item in derivation.recurrences:
            state = []
            for part in item.state:
                correction = tuple(factor and self.expr(factor) for factor in part.correction)
                state.append(replace(part, tensor=self.tensor(part.tensor), element=self.expr(part.element)))
                state[-1] = replace(state[-1], correction=correction)
            base, finish = item.base and self.expr(item.base), self.expr(item.finish)
            result = self.tensor(item.result)
            items.append(replace(item, result=result, state=tuple(state), base=base, finish=finish))
        return replace(derivation, recurrences=tuple(items))

    def tensor(self, tensor: Tensor) -> Tensor:
        """A result, or a tensor that belongs to one, with scenarios."""
        kept = self._axes_of_result(tensor)
        return Tensor(tensor.name, tuple(a.extent for a in kept), tensor.dtype)

    def expr(self, expr: Expr) -> Expr:
        """An expression of the cascade or a derivation over the small cascade's tensors."""
        swaps: dict[Expr, Expr] = {}
        for node in _outermost(expr):
            if node.tensor.name.partition(".")[0] in self.results:
                swaps[node] = load(self.tensor(node.tensor), *self._axes_of_result(node.tensor))
            else:
                swaps[node] = self._input(node)
        return transform(substitute(expr, swaps), self._resized)

    def _axes_of_result(self, tensor: Tensor) -> tuple[Axis, ...]:
        owner = self.results[tensor.name.partition(".")[0]]
        return (self.scenario, *(self.axes[a] for a in owner.axes))

    def _input(self, node: Load) -> Load:
        if node not in self.inputs:
            used = axes_of(node)
            over = self.original.axis
            kept = [self.scenario, *(new for old, new in self.axes.items() if old in used and old != over)]
            kept += [self.axes[over]] if over in used else []
            name, extents = f"in{len(self.inputs)}", tuple(a.extent for a in kept)
            self.inputs[node] = load(Tensor(name, extents, node.dtype), *kept)
        return self.inputs[node]

    def _resized(self, node: Expr) -> Expr:
        extent = self.original.axis.extent
        if isinstance(node, Axis):
            return self.axes.get(node, node)
        if isinstance(node, Symbol):
            return Const(node.dtype, self.length if node.size == extent else _OTHER)
        if is_symbolic(extent):
            return node
        if isinstance(node, Const) and "float" in node.dtype and extent > 1:
            if node.value == extent:
                return Const(node.dtype, float(self.length))
            if np.isclose(node.value, 1 / extent, rtol=1e-6, atol=0):
                return Const(node.dtype, 1 / self.length)
        return node

    def _cascade(self) -> Cascade:
        original, over = self.original, self.axes[self.original.axis]
        reductions = tuple(
            Reduction(
                self.tensor(r.result),
                r.combiner,
                self._axes_of_result(r.result),
                over,
                self.expr(r.map),
                self.axes[r.rank] if r.rank is not None else None,
            )
            for r in original.reductions
        )
        rows = (self.scenario, *(self.axes[a] for a in original.rows if a in self.axes))
        inputs = tuple(node.tensor for node in self.inputs.values())
        return Cascade(original.name, rows, over, inputs, (), reductions, ())


def _outermost(expr: Expr) -> tuple[Load, ...]:
    """Loads that are not inside an index of another."""
    inner = {child for node in loads(expr) for index in node.indices for child in walk(index)}
    return tuple(node for node in loads(expr) if node not in inner)


def data(cascade: Cascade, masked: frozenset[str]) -> dict[Tensor, Array]:
    """Contents for the inputs of a :class:`Small` cascade.

    Args:
        masked: names of extrema whose scores also take infinities and NaN, as those of a softmax do.
    """
    generator = np.random.default_rng(2026)
    scores = _scores(cascade, masked)
    return {tensor: _contents(tensor, generator, tensor in scores) for tensor in cascade.inputs}


def scenarios(cascade: Cascade, masked: frozenset[str]) -> tuple[str, ...]:
    """Those that :func:`data` holds something of its own for."""
    masks = any("float" in tensor.dtype for tensor in _scores(cascade, masked))
    return tuple(name for name in SCENARIOS if masks or name not in MASKS)


def _scores(cascade: Cascade, masked: frozenset[str]) -> frozenset[Tensor]:
    return frozenset(node.tensor for r in cascade.reductions if r.result.name in masked for node in loads(r.map))


def _contents(tensor: Tensor, generator: np.random.Generator, score: bool) -> Array:
    if "float" not in tensor.dtype:
        return generator.integers(0, 2, tensor.shape).astype(tensor.dtype)
    values = generator.normal(size=tensor.shape)
    if len(tensor.shape) < 2:
        return values
    return np.stack([make(generator, values[n], score) for n, make in enumerate(SCENARIOS.values())])
