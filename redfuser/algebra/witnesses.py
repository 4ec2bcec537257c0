"""Adversarial data for the float64 check of a derivation.

The cascade is made small first: axes are cut down, and every load of an input becomes a tensor of its own
over the axes that its indices use, with one more axis in front that counts scenarios. So scores reach the
values a check needs whatever producers, masks or tables they come from, and all scenarios run at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Const, Expr, Load, Tensor, axes_of, load, loads, substitute, transform, walk

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


def small(cascade: Cascade, length: int) -> Cascade:
    """``cascade`` over ``length`` elements, two points of each other axis, and the scenarios in front.

    Constants equal to the axis' extent, or its inverse, follow the axis: a mean stays a mean.
    """
    scenario = Axis(cascade.axis.dtype, "scenario", len(SCENARIOS))
    length = min(length, cascade.axis.extent)
    axes = {cascade.axis: Axis(cascade.axis.dtype, cascade.axis.name, length)}
    for item in cascade.reductions:
        for other in item.axes:
            axes.setdefault(other, Axis(other.dtype, other.name, min(other.extent, _OTHER)))
    results = {r.result: _with_scenarios(r, axes, scenario) for r in cascade.reductions}
    inputs: dict[Load, Load] = {}

    def leaf(node: Load) -> Load:
        if node not in inputs:
            used = axes_of(node)
            kept = [scenario, *(axes[a] for a in axes if a in used and a != cascade.axis)]
            kept += [axes[cascade.axis]] if cascade.axis in used else []
            inputs[node] = load(Tensor(f"in{len(inputs)}", tuple(a.extent for a in kept), node.dtype), *kept)
        return inputs[node]

    def element(expr: Expr) -> Expr:
        outer: dict[Expr, Expr] = {r.value: results[r.result].value for r in cascade.reductions}
        outer.update({node: leaf(node) for node in _outermost(expr) if node.tensor not in results})
        shrunk = substitute(expr, outer)
        return transform(shrunk, lambda node: _resized(node, axes, cascade.axis.extent, length))

    reductions = []
    for item in cascade.reductions:
        new = results[item.result]
        reductions.append(Reduction(new.result, item.combiner, new.axes, axes[item.over], element(item.map)))
    rows = (scenario, *(axes[a] for a in cascade.rows if a in axes))
    tensors = tuple(node.tensor for node in inputs.values())
    return Cascade(cascade.name, rows, axes[cascade.axis], tensors, (), tuple(reductions), ())


def _with_scenarios(item: Reduction, axes: dict[Axis, Axis], scenario: Axis) -> Reduction:
    kept = (scenario, *(axes[a] for a in item.axes))
    result = Tensor(item.result.name, tuple(a.extent for a in kept), item.result.dtype)
    return Reduction(result, item.combiner, kept, axes[item.over], item.map)


def _resized(node: Expr, axes: dict[Axis, Axis], extent: int, length: int) -> Expr:
    if isinstance(node, Axis):
        return axes.get(node, node)
    if isinstance(node, Const) and "float" in node.dtype and extent > 1:
        if node.value == extent:
            return Const(node.dtype, float(length))
        if np.isclose(node.value, 1 / extent, rtol=1e-6, atol=0):
            return Const(node.dtype, 1 / length)
    return node


def _outermost(expr: Expr) -> tuple[Load, ...]:
    """Loads that are not inside an index of another."""
    inner = {child for node in loads(expr) for index in node.indices for child in walk(index)}
    return tuple(node for node in loads(expr) if node not in inner)


def data(cascade: Cascade, masked: frozenset[Tensor]) -> dict[Tensor, Array]:
    """Contents for the inputs of a :func:`small` cascade.

    Args:
        cascade: as :func:`small` made it.
        masked: extrema whose scores also take infinities and NaN, as those of a softmax do.
    """
    generator = np.random.default_rng(2026)
    scores = {node.tensor for r in cascade.reductions if r.result in masked for node in loads(r.map)}
    return {tensor: _contents(tensor, generator, tensor in scores) for tensor in cascade.inputs}


def _contents(tensor: Tensor, generator: np.random.Generator, score: bool) -> Array:
    if "float" not in tensor.dtype:
        return generator.integers(0, 2, tensor.shape).astype(tensor.dtype)
    values = generator.normal(size=tensor.shape)
    if len(tensor.shape) < 2:
        return values
    return np.stack([make(generator, values[n], score) for n, make in enumerate(SCENARIOS.values())])
