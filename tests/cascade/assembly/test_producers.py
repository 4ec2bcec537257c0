"""Which contractions are computed on the tile."""

from __future__ import annotations

import pytest

from redfuser.cascade.detect import detect
from redfuser.expr import index, op
from redfuser.extents import Dim, Extent, size_of
from tests.cascade.build import GraphBuilder, at, axes, matmul, number, softmax


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


@pytest.mark.parametrize(("rows", "on_tile"), [(1, True), (20, False)])
def test_a_product_that_all_rows_share_is_made_once(rows: int, on_tile: bool) -> None:
    """Linear attention: queries weigh a product of keys and values, which each block of queries would compute again."""
    g = GraphBuilder()
    q, k, v = g.input("q", 2, rows, 8), g.input("k", 2, 8, 30), g.input("v", 2, 30, 6)
    (cascade,) = detect(g.graph(matmul(g, "o", softmax(g, q), matmul(g, "context", k, v)))).cascades
    assert [r.combiner for r in cascade.reductions] == ["max", "sum", "sum"]
    assert bool(cascade.producers) == on_tile
    assert ("context" in [tensor.name for tensor in cascade.inputs]) != on_tile


@pytest.mark.parametrize(("tokens", "on_tile"), [(30, True), (size_of(Dim("n", 1, 64)), False)], ids=["known", "open"])
def test_a_product_along_an_open_axis_stays_stored(tokens: Extent, on_tile: bool) -> None:
    """Attention between channels, whose scores are sums over the tokens."""
    g = GraphBuilder()
    q, k, v = g.input("q", 2, 8, tokens), g.input("k", 2, tokens, 6), g.input("v", 2, 6, 4)
    (cascade,) = detect(g.graph(matmul(g, "o", softmax(g, matmul(g, "scores", q, k)), v))).cascades
    assert [r.combiner for r in cascade.reductions] == ["max", "sum", "sum"]
    assert bool(cascade.producers) == on_tile


def test_a_product_read_under_a_condition_stays_stored() -> None:
    """Scores of relative positions, padded before and shifted: the first of each row isn't in the product."""
    g = GraphBuilder()
    q, k, v, far = g.input("q", 2, 6, 4), g.input("k", 2, 4, 6), g.input("v", 2, 6, 4), g.input("far", 2, 4, 6)
    near, away = matmul(g, "near", q, k), matmul(g, "away", q, far)
    h, r, c = axes("pad", 2, 6, 7)
    shifted = at(away, h, r, op("sub", c, index(1)))
    padded = g.define("padded", (h, r, c), op("select", op("lt", index(0), c), shifted, number(0.0)))
    a = axes("s", 2, 6, 6)
    flat = op("add", op("add", op("mul", a[1], index(6)), a[2]), index(6))
    relative = at(padded, a[0], op("floordiv", flat, index(7)), op("floormod", flat, index(7)))
    scores = g.define("scores", a, op("add", at(near, *a), relative))
    found = detect(g.graph(matmul(g, "o", softmax(g, scores), v)))
    assert [cascade.name for cascade in found.cascades] == ["attention_0"] and not found.rejected
    assert len(found.cascades[0].producers) == 1 and "q[" in str(found.cascades[0].producers[0].map)
    assert "padded" in [tensor.name for tensor in found.cascades[0].inputs]


def test_joined_scores_of_blocks_stay_stored() -> None:
    """Block-sparse attention: the products of a block with the first, its own and the last keys, side by side."""
    g = GraphBuilder()
    q, first, own, v = g.input("q", 2, 5, 4), g.input("first", 2, 4, 3), g.input("own", 2, 4, 6), g.input("v", 2, 9, 4)
    left, right = matmul(g, "left", q, first), matmul(g, "right", q, own)
    h, r, c = axes("join", 2, 5, 9)
    inner = at(right, h, r, op("sub", c, index(3)))
    joined = g.define("joined", (h, r, c), op("select", op("lt", c, index(3)), at(left, h, r, c), inner))
    found = detect(g.graph(matmul(g, "o", softmax(g, joined), v)))
    assert [cascade.name for cascade in found.cascades] == ["attention_0"] and not found.rejected
    assert not found.cascades[0].producers
    assert "joined" in [tensor.name for tensor in found.cascades[0].inputs]
