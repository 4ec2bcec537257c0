"""Products that a later cascade computes itself."""

from __future__ import annotations

import pytest

from redfuser.cascade.detect import detect
from redfuser.expr import Tensor, axis, op
from tests.cascade.build import GraphBuilder, at, axes, matmul, number, softmax


def normalised(g: GraphBuilder, x: Tensor, name: str) -> Tensor:
    """Each row over its root mean square; keys have their elements in the first dimension."""
    turned = name == "k"
    h, r, c = axes(name, x.shape[0], x.shape[2 if turned else 1], x.shape[1 if turned else 2])
    k = axis("f", c.extent)
    here, there = ((h, c, r), (h, k, r)) if turned else ((h, r, c), (h, r, k))
    total = g.define(f"s{name}", (h, r), op("mul", at(x, *there), at(x, *there)), "sum", (k,))
    scale = op("sqrt", op("add", at(total, h, r), number(1e-5)))
    return g.define(f"n{name}", here, op("div", at(x, *here), scale))


@pytest.mark.parametrize("which", ["q", "k"])
@pytest.mark.parametrize(("keys", "apart"), [(7, True), (4, False)])
def test_scores_of_one_normalised_operand_stay_in_the_attention(which: str, keys: int, apart: bool) -> None:
    """Unless they are no more than what is normalised: then they cost as little beside its norm."""
    g = GraphBuilder()
    q, k, v = g.input("q", 2, keys, 4), g.input("k", 2, 4, keys), g.input("v", 2, keys, 4)
    operands = {"q": q, "k": k} | {which: normalised(g, {"q": q, "k": k}[which], which)}
    scores = matmul(g, "scores", operands["q"], operands["k"])
    found = detect(g.graph(matmul(g, "o", softmax(g, scores), v)))
    names = ["norm_0", "attention_0"] if apart else ["other_0", "attention_0"]
    assert [cascade.name for cascade in found.cascades] == names
    assert bool(found.cascades[1].producers) == apart
    assert [(b.cascade, b.reason.code) for b in found.boundaries if b.reason.code == "tile-local"] == (
        [("norm_0", "tile-local")] if apart else []
    )


def test_a_product_that_only_softmax_reads_stays_with_its_norm() -> None:
    """Nothing is weighed by it, so that it isn't there for another cascade alone."""
    g = GraphBuilder()
    q, k = g.input("q", 2, 7, 4), g.input("k", 2, 4, 7)
    scores = matmul(g, "scores", normalised(g, q, "q"), k)
    assert [cascade.name for cascade in detect(g.graph(softmax(g, scores))).cascades] == ["other_0", "softmax_0"]


def test_the_weighted_sum_of_an_attention_stays_with_it_where_its_rows_are_normalised() -> None:
    g = GraphBuilder()
    s, v = g.input("s", 2, 5, 7), g.input("v", 2, 7, 16)
    o = matmul(g, "o", softmax(g, s), v)
    h, r, c = axes("y", 2, 5, 16)
    k = axis("f", 16)
    mean = g.define("mean", (h, r), at(o, h, r, k), "sum", (k,))
    centred = op("sub", at(o, h, r, k), at(mean, h, r))
    spread = g.define("spread", (h, r), op("mul", centred, centred), "sum", (k,))
    y = g.define("y", (h, r, c), op("div", at(o, h, r, c), at(spread, h, r)))
    assert [cascade.name for cascade in detect(g.graph(y)).cascades] == ["attention_0", "norm_0"]


@pytest.mark.parametrize("shared", [False, True])
def test_a_scale_of_the_whole_of_another_tensor_makes_no_chain(shared: bool) -> None:
    """A product of x, quantised, whose own greatest element is taken in turn: of other elements than the first was."""
    g = GraphBuilder()
    x, w = g.input("x", 4, 8), g.input("w", 8, 8)
    r, c = axes("r", 4, 8)
    j, k = axes("f", 4, 8)
    scale = g.define("scale", (), at(x, j, k), "max", (j, k))
    quantised = g.define("quantised", (r, c), op("round", op("div", at(x, r, c), at(scale))))
    product = matmul(g, "product", quantised, w)
    body = op("mul", at(product, r, c), at(scale))
    scaled = g.define("scaled", (r, c), op("add", body, at(x, r, c)) if shared else body)
    second = g.define("second", (), at(scaled, j, k), "max", (j, k))
    found = detect(g.graph(second))
    assert ("not-convex" in {x.reason.code for x in (*found.rejected, *found.boundaries)}) == shared
