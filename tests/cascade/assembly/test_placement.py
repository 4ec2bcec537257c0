"""Where the axes of a cascade's definitions lie."""

from __future__ import annotations

import pytest

from redfuser.cascade.detect import detect
from redfuser.expr import op
from tests.cascade.build import GraphBuilder, at, axes


@pytest.mark.parametrize("columns", [6, 5])
def test_an_output_over_another_dimension_than_the_last(columns: int) -> None:
    """Softmax over the rows: the output's own axis may have the name and extent of the columns that the sums keep."""
    g = GraphBuilder()
    x = g.input("x", 6, columns)
    (column,) = axes("a", columns)
    (k,) = axes("k", 6)
    row, place = axes("a", 6, columns)  # a0 is the row here, and the column above
    m = g.define("m", (column,), at(x, k, column), "max", (k,), "p")
    e = g.define("e", (row, place), op("exp", op("sub", at(x, row, place), at(m, place))), inside="p")
    t = g.define("t", (column,), at(e, k, column), "sum", (k,), "p")
    p = g.define("p", (row, place), op("div", at(e, row, place), at(t, place)))
    found = detect(g.graph(p))
    assert [cascade.name for cascade in found.cascades] == ["softmax_0"] and not found.rejected
    (output,) = found.cascades[0].outputs
    assert [str(i) for i in output.indices] == ["l", "i0"]
    assert "exp((x[l, i0] - max0[i0]))" in str(output.value)
