"""Which elements of the shared axis a mask hides from every row of a tile, so that no block need visit them.

An element may be skipped if it would leave every state as it is: each component's element is the identity of
its combiner. A comparison of positions (a causal mask, a window) hides an element where that follows from the
comparison alone, given that the numbers read there are finite: -inf hides a score unless the score is NaN or
+inf, and a weight of 0 hides a value unless the value is. Whether they are is seen at run time, once for each
group of rows: a first phase adds up magnitudes, and a sum that is too large, or NaN, makes every tile visited.
A mask of large finite numbers hides nothing (METHOD §4: a row of such scores is the mean of all values).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.expr import Const, Expr, Load, Op, Tensor, axes_of, load, loads, op, substitute, walk
from redfuser.indexing import Linear, linear
from redfuser.tile.monoid import identity
from redfuser.tile.strategies.intervals import LARGEST, Interval, interval_of

#: Magnitudes that add up to no more than this can't overflow float32 in a product of two.
MODERATE = float(1 << 40)
#: Not NaN, nor -inf: what a base point is while the result it stands for isn't NaN.
BASE = Interval(-LARGEST["float32"], math.inf)
#: What may be asked of a loaded value, the least first: nothing, not NaN nor +inf, finite.
ASKED = (None, Interval(-math.inf, MODERATE), Interval(-MODERATE, MODERATE))

_COMPLEMENT = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


@dataclass(frozen=True)
class Limit:
    """One end of what rows see: ``j <= position``, or ``j >= position`` for a lower one; linear in row axes."""

    position: Linear
    upper: bool


@dataclass(frozen=True)
class Hidden:
    """What a block may skip.

    Args:
        limits: every element beyond one of them is hidden.
        asked: loaded values that must be moderate for that, and the range that they must be in.
    """

    limits: tuple[Limit, ...]
    asked: Mapping[Load, Interval]


#: No mask, or none that hides anything.
NOTHING = Hidden((), {})


def find_hidden(cascade: Cascade, derivation: Derivation) -> Hidden:
    """The elements that comparisons of positions hide from all reductions."""
    elements = [(c.combiner, c.element) for r in derivation.recurrences for c in r.state]
    limits: list[Limit] = []
    asked: dict[Load, Interval] = {}
    for comparison in _comparisons(cascade, [element for _, element in elements]):
        for value in (False, True):
            proof = _Proof(cascade, elements, {comparison: Const("bool", value)})
            limit = _limit(cascade, comparison, not value)
            wanted = proof.least_asked() if limit is not None else None
            if limit is not None and wanted is not None and not _dear(cascade, limit, wanted):
                limits.append(limit)
                asked |= {node: r for node, r in wanted.items() if r.low > -math.inf or node not in asked}
    return Hidden(tuple(limits), asked)


def _comparisons(cascade: Cascade, elements: list[Expr]) -> list[Op]:
    """Comparisons of positions along the shared axis."""
    found: dict[Op, None] = {}
    for expr in elements:
        for node in walk(expr):
            if isinstance(node, Op) and node.name in _COMPLEMENT and not loads(node) and cascade.axis in axes_of(node):
                found[node] = None
    return list(found)


def _limit(cascade: Cascade, comparison: Op, holds: bool) -> Limit | None:
    """The limit that a comparison sets to what rows see; None if it isn't linear with step 1."""
    name = comparison.name if holds else _COMPLEMENT[comparison.name]
    form = linear(op("sub", *comparison.args))
    step = dict(form.terms).get(cascade.axis, 0)
    rest = {atom: c for atom, c in form.terms if atom != cascade.axis}
    if abs(step) != 1 or any(atom not in cascade.rows for atom in rest):
        return None
    constant = form.constant + {"lt": 1, "gt": -1}.get(name, 0)
    position = Linear.of({atom: -step * c for atom, c in rest.items()}, -step * constant)
    return Limit(position, (name in ("lt", "le")) == (step == 1))


def _dear(cascade: Cascade, limit: Limit, asked: Mapping[Load, Interval]) -> bool:
    """Whether looking at the values costs as much as using them: one has an element for each pair of positions."""
    rows = {atom for atom, _ in limit.position.terms}
    return any(cascade.axis in axes_of(node) and rows & axes_of(node) for node in asked)


@dataclass(frozen=True)
class _Proof:
    """That every element is its combiner's identity once a comparison's value is given."""

    cascade: Cascade
    elements: list[tuple[str, Expr]]
    given: Mapping[Expr, Expr]

    def least_asked(self) -> dict[Load, Interval] | None:
        """The weakest requirements found under which it holds; None if it doesn't."""
        read = self._read()
        asked: dict[Load, Interval | None] = dict.fromkeys(read, ASKED[-1])
        if not self._holds(asked):
            return None
        for node in read:
            asked[node] = next(r for r in ASKED if self._holds({**asked, node: r}))
        return {node: wanted for node, wanted in asked.items() if wanted is not None}

    def _read(self) -> list[Load]:
        """Floating-point inputs that the elements read, directly or through producers."""
        maps = [element for _, element in self.elements] + [p.map for p in self.cascade.producers]
        inputs = set(self.cascade.inputs)
        found = [node for expr in maps for node in loads(expr) if node.tensor in inputs and "float" in node.dtype]
        return list(dict.fromkeys(found))

    def _holds(self, asked: Mapping[Load, Interval | None]) -> bool:
        known: dict[Load, Interval | None] = dict(asked)
        for producer in self.cascade.producers:
            element = interval_of(substitute(producer.map, self.given), known.get)
            total = element.times(producer.over.extent) if element and producer.combiner == "sum" else None
            fits = total is not None and max(-total.low, total.high) < BASE.low * -1
            known[load(producer.result, *producer.axes)] = total if fits else None
        for reduction in self.cascade.reductions:
            if reduction.combiner == "max":
                base = Tensor(f"{reduction.result.name}.base", reduction.result.shape, reduction.result.dtype)
                known[load(base, *reduction.axes)] = BASE
        return all(self._absorbed(combiner, element, known) for combiner, element in self.elements)

    def _absorbed(self, combiner: str, element: Expr, known: Mapping[Load, Interval | None]) -> bool:
        result = interval_of(substitute(element, self.given), known.get)
        neutral = identity(combiner, element.dtype)
        return result == Interval(neutral, neutral)
