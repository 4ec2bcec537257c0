"""What a schedule goes by: whether there are products, what they share, what lies together in memory."""

from __future__ import annotations

from redfuser.cascade.model import Cascade
from redfuser.expr import Axis, Load, axes_of, loads
from redfuser.indexing import linear
from redfuser.tile.products import split_product


def has_products(cascade: Cascade) -> bool:
    """Whether a matrix or vector product is part of the cascade."""
    own = any(set(r.element_axes) - set(cascade.rows) for r in cascade.reductions)
    return own or any(r.combiner == "sum" and len(loads(r.map)) > 1 for r in cascade.producers)


def stationary_row(cascade: Cascade) -> Axis | None:
    """The widest row axis that one operand of every product lacks: queries, against keys and values."""
    items = (*cascade.producers, *cascade.reductions)
    products = [r for r in items if split_product(r.map, r.axes, r.over, lambda a: a.extent) is not None]
    moving = [[n for n in loads(r.map) if cascade.axis in axes_of(n)] for r in products]
    shared = [
        row
        for row in cascade.rows
        if row.extent > 1 and products and all(any(row not in axes_of(n) for n in nodes) for nodes in moving)
    ]
    return max(shared, key=lambda a: a.extent, default=None)


def contiguous_axis(cascade: Cascade) -> Axis | None:
    """The axis along which the largest input that varies with the shared axis lies in memory, element by element."""
    nodes = [n for r in cascade.reductions for n in loads(r.map) if n.tensor in cascade.inputs]
    along = [n for n in nodes if cascade.axis in axes_of(n) and n.indices]
    if not along:
        return None
    largest: Load = max(along, key=lambda n: n.tensor.size)
    terms = dict(linear(largest.indices[-1]).terms)
    return next((atom for atom, step in terms.items() if isinstance(atom, Axis) and step == 1), None)
