"""Selections in the lowered graph: a sorted list of pairs, and the values and positions taken from it. Imports no TVM.

The frontend lowers TopK and ArgMax to one annotated block (:func:`redfuser.frontend.kernels.top_k`). What it means is
a reduction over pairs of a value and a position.
"""

from __future__ import annotations

from collections.abc import Sequence

from redfuser.cascade.graph import Definition
from redfuser.expr import INDEX, PAIR, Expr, Tensor, axis, index, load, op, pair, position_of, value_of

#: Types whose values fit one 64-bit integer together with a position.
SELECTABLE = frozenset({"float16", "bfloat16", "float32", "bool", "int8", "int16", "int32", "uint8", "uint16"})


def selection(parameters: Sequence[Tensor], largest: bool, last: bool) -> tuple[Definition, ...] | None:
    """The definitions behind a selection.

    Args:
        parameters: the data, by row; the values and the positions selected, by row and place.
        largest: whether the greatest elements are selected.
        last: whether the highest position wins a tie.

    Returns:
        The list of pairs, the values and the positions; ``None`` if nothing is selected, or of a type that isn't
        :data:`SELECTABLE`.
    """
    data, values, positions = parameters
    (rows, width), count = data.shape, values.shape[1]
    if data.dtype not in SELECTABLE or count == 0 or values.dtype != data.dtype or positions.dtype != INDEX:
        return None
    row, place, column = axis("row", rows), axis("place", count), axis("column", width)
    pairs = Tensor("pairs", (rows, count), PAIR)
    listed = count > 1
    combiner = ("topk" if listed else "max") if largest else ("bottomk" if listed else "min")
    # The position that wins a tie must be the greatest where the greatest wins, else the least.
    backwards = largest != last
    body = pair(load(data, row, column), negated(column) if backwards else column)
    item = load(pairs, row, place)
    found = negated(position_of(item)) if backwards else position_of(item)
    return (
        Definition(pairs, (row, place), (column,), combiner, body, "", place if listed else None),
        Definition(values, (row, place), (), "", value_of(item, data.dtype), ""),
        Definition(positions, (row, place), (), "", found, ""),
    )


def negated(position: Expr) -> Expr:
    """Minus a position."""
    return op("sub", index(0), position)
