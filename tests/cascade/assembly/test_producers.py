"""Which contractions are computed on the tile."""

from __future__ import annotations

import pytest

from redfuser.cascade.detect import detect
from tests.cascade.build import GraphBuilder, matmul, softmax


@pytest.mark.parametrize(
    ("rows", "length", "width", "on_tile"),
    [
        (20, 512, 64, False),  # the gate of 64 experts
        (20, 256, 64, True),  # a short one
        (128, 576, 1024, True),  # latent attention: all heads share the keys
    ],
)
def test_a_long_and_narrow_matrix_that_all_rows_share_is_multiplied_apart(
    rows: int, length: int, width: int, on_tile: bool
) -> None:
    g = GraphBuilder()
    x, gate, v = g.input("x", 1, rows, length), g.input("gate", 1, length, width), g.input("v", 1, width, 8)
    scores = matmul(g, "scores", x, gate)
    (cascade,) = detect(g.graph(matmul(g, "o", softmax(g, scores), v))).cascades
    assert [r.combiner for r in cascade.reductions] == ["max", "sum", "sum"]
    assert bool(cascade.producers) == on_tile
    assert ("scores" in [tensor.name for tensor in cascade.inputs]) != on_tile
