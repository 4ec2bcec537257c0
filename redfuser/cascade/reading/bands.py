"""Constant tables that only say where an element lies: causal masks and windows as comparisons. No TVM.

A table read from memory hides what it says; as a comparison of positions it can be reasoned about, costs no
memory traffic, and is the same in every spelling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from redfuser.expr import Const, Expr, index, number, op


@dataclass(frozen=True)
class Band:
    """A table with one value where ``low <= column - row <= high``, and another elsewhere.

    Args:
        low, high: the diagonals at the band's edges; None where it reaches the table's corner.
        inside, outside: the two values.
    """

    low: int | None
    high: int | None
    inside: Const
    outside: Const

    def at(self, indices: Sequence[Expr]) -> Expr:
        """The element at some indices, of which the last two are the row and the column."""
        row, column = indices[-2:]
        conditions = []
        if self.low is not None:
            conditions.append(op("ge", column, op("add", row, index(self.low))))
        if self.high is not None:
            conditions.append(op("le", column, op("add", row, index(self.high))))
        condition = conditions[0] if len(conditions) == 1 else op("and", *conditions)
        if self.inside.dtype == "bool":
            return condition if self.inside.value else op("not", condition)
        return op("select", condition, self.inside, self.outside)


def find_band(table: np.ndarray[Any, Any], dtype: str) -> Band | None:
    """The band that a table is, the same in all its matrices; None if it isn't one.

    Args:
        table: of any rank; NaN is no value of a band.
        dtype: of the elements.
    """
    if table.ndim < 2 or min(table.shape[-2:]) < 2 or table.size == 0:
        return None
    matrix = table.reshape(-1, *table.shape[-2:])[0]
    corners = matrix[0, 0], matrix[0, -1], matrix[-1, 0], matrix[-1, -1]
    first = corners[0]
    other = next((v for v in (*corners, *matrix[0], *matrix[:, 0]) if v != first), first)
    if other == first or not np.isin(matrix[0], (first, other)).all():
        return None  # most weights, without a look at all of them
    mask = matrix == first
    if not (mask | (matrix == other)).all() or not (table == matrix).all():
        return None
    rows, columns = matrix.shape
    diagonals = np.array([mask.diagonal(d)[0] for d in range(1 - rows, columns)])
    # Both ends of the diagonals are outside a window; a band that touches one corner has another value in the other.
    inside = not diagonals[0] if diagonals[0] == diagonals[-1] else diagonals[-1] != diagonals[0] and bool(diagonals[0])
    places = np.flatnonzero(diagonals == inside) + 1 - rows
    if places.size == 0:
        return None
    low, high = int(places[0]), int(places[-1])
    distance = np.arange(columns)[None, :] - np.arange(rows)[:, None]
    if not np.array_equal(mask == inside, (distance >= low) & (distance <= high)):
        return None
    values = (first, other) if inside else (other, first)
    edges = low if low > 1 - rows else None, high if high < columns - 1 else None
    return Band(*edges, *(_constant(v, dtype) for v in values))


def _constant(value: Any, dtype: str) -> Const:
    return Const("bool", bool(value)) if dtype == "bool" else number(value.item(), dtype)
