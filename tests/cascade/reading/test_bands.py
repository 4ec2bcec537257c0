"""Constant tables as comparisons of positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redfuser.cascade.reading.bands import find_band
from redfuser.expr import axis
from redfuser.expr.evaluate import evaluate, open_mesh

LOWEST = float(np.finfo(np.float32).min)


def banded(rows: int, columns: int, low: int, high: int, inside: Any, outside: Any) -> np.ndarray:
    distance = np.arange(columns) - np.arange(rows)[:, None]
    return np.where((distance >= low) & (distance <= high), inside, outside)


@given(
    st.integers(2, 6),
    st.integers(2, 6),
    st.integers(-6, 6),
    st.integers(0, 6),
    st.sampled_from([(0.0, -math.inf), (LOWEST, 0.0), (1.0, 0.0), (True, False), (False, True)]),
)
def test_a_band_means_its_table(rows: int, columns: int, low: int, width: int, values: tuple[Any, Any]) -> None:
    dtype = "bool" if isinstance(values[0], bool) else "float32"
    table = banded(rows, columns, low, low + width, *values).astype(dtype)
    band = find_band(table[None], dtype)
    if band is None:
        assert (table == table.flat[0]).all(), "only a table of one value is no band"
        return
    i, j = axis("i", rows), axis("j", columns)
    expr = band.at((axis("b", 1), i, j))
    assert expr.dtype == dtype
    np.testing.assert_array_equal(np.broadcast_to(evaluate(expr, {}, open_mesh((i, j))), table.shape), table)


@pytest.mark.parametrize(
    "table",
    [
        np.zeros((4, 4)),
        np.arange(16.0).reshape(4, 4),
        np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]]),
        np.array([[0.0, 0, 0], [0, 0, 0], [0, 0, 1]]),  # no diagonal begins with the other value
        np.tril(np.ones((4, 4))) + np.eye(4),
        np.full((3, 3), np.nan),
        np.stack([np.tril(np.ones((3, 3))), np.triu(np.ones((3, 3)))]),
        np.ones((1, 5)),
        np.zeros((0, 4, 4)),
    ],
)
def test_what_isnt_a_band(table: np.ndarray) -> None:
    assert find_band(table.astype(np.float32), "float32") is None
