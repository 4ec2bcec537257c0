"""Which elements of the shared axis a mask hides from every row of a tile, so that no block need visit them.

An element may be skipped if it contributes nothing to any state (:mod:`redfuser.tile.strategies.skipping.proof`).
What hides it is a comparison of positions (a causal mask, a window), or a condition read from memory: a table of
booleans, as exporters hand on. Of the former the limits are known; of the latter they are measured, as the range of
the shared axis that the rows of a block see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.expr import Axis, Const, Expr, Op, axes_of, loads, op, walk
from redfuser.extents import is_symbolic, surely_at_most, surely_less
from redfuser.indexing import Linear, linear
from redfuser.tile.strategies.skipping.proof import Elements, Needs, Proof, product_of

_COMPLEMENT = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


@dataclass(frozen=True)
class Limit:
    """One end of what rows see: ``j <= position``, or ``j >= position`` for a lower one; linear in row axes."""

    position: Linear
    upper: bool

    def reached(self, axis: Axis) -> bool:
        """Whether every row sees an element of the axis, whatever the row."""
        low, high = self.position.bounds()
        return surely_at_most(0, low) if self.upper else surely_less(high, axis.extent)


@dataclass(frozen=True)
class Hidden:
    """What a block may skip.

    Args:
        limits: every element beyond one of them is hidden.
        conditions: an element is hidden unless each of them holds; they read memory.
        needs: what must hold at run time.
    """

    limits: tuple[Limit, ...] = ()
    conditions: tuple[Expr, ...] = ()
    needs: Needs = field(default_factory=Needs)

    def __bool__(self) -> bool:
        return bool(self.limits or self.conditions)


#: No mask, or none that hides anything.
NOTHING = Hidden()


def find_hidden(cascade: Cascade, derivation: Derivation) -> Hidden:
    """The elements that comparisons of positions, and conditions in memory, hide from all reductions."""
    elements = [(c.combiner, c.element) for r in derivation.recurrences for c in r.state]
    limits: list[Limit] = []
    conditions: list[Expr] = []
    needs = Needs()
    used: set[Expr] = set()
    for comparison in _comparisons(cascade, elements):
        for hides in (False, True):
            limit = _limit(cascade, comparison, not hides)
            found = _prove(cascade, elements, comparison, hides) if limit is not None else None
            if limit is not None and found is not None and (not found.visible or limit.reached(cascade.axis)):
                limits.append(limit)
                used.add(comparison)
                needs = needs.also(found)
    for condition in _conditions(cascade, elements):
        for hides in (False, True):
            found = _prove(cascade, elements, condition, hides) if not used & set(walk(condition)) else None
            if found is not None:
                conditions.append(op("not", condition) if hides else condition)
                needs = needs.also(found)
    return Hidden(tuple(limits), tuple(conditions), needs)


def sharing_rows(cascade: Cascade) -> tuple[Axis, ...]:
    """Rows that read the same of the shared axis: those that products don't have in what moves along it."""
    products = [product for product in map(product_of, cascade.producers) if product is not None]
    moving = [side for p in products for side in (p.left, p.right) if cascade.axis in axes_of(side)]
    return tuple(row for row in cascade.rows if row.extent != 1 and all(row not in axes_of(side) for side in moving))


def _prove(cascade: Cascade, elements: Elements, condition: Expr, hides: bool) -> Needs | None:
    """What must hold for a condition's value to hide; None if it doesn't, or looking is as dear as computing."""
    hidden, seen = ({condition: Const("bool", value)} for value in (hides, not hides))
    needs = Proof(cascade, elements, hidden, seen).needs()
    rows = set(sharing_rows(cascade))
    if needs is not None and any(cascade.axis in axes_of(node) and rows & axes_of(node) for node in needs.values):
        return None
    return needs


def _comparisons(cascade: Cascade, elements: Elements) -> list[Op]:
    """Comparisons of positions along the shared axis."""
    found: dict[Op, None] = {}
    for _, expr in elements:
        for node in walk(expr):
            if isinstance(node, Op) and node.name in _COMPLEMENT and not loads(node) and cascade.axis in axes_of(node):
                found[node] = None
    return list(found)


def _conditions(cascade: Cascade, elements: Elements) -> Iterator[Expr]:
    """Conditions along the shared axis, one number for many products, that are known before anything is computed."""
    found = {
        node.args[0]: None for _, e in elements for node in walk(e) if isinstance(node, Op) and node.name == "select"
    }
    rows = sharing_rows(cascade) if any(map(product_of, cascade.producers)) else ()
    for condition in found:
        known = all(node.tensor in cascade.inputs and "float" not in node.dtype for node in loads(condition))
        axes = axes_of(condition)
        fixed = not any(is_symbolic(a.extent) for a in axes)
        if known and fixed and cascade.axis in axes and rows and axes <= {*cascade.rows, cascade.axis}:
            yield condition


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
