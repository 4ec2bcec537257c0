"""Detection on hand-written graphs: what is found, where it ends, and why it refuses."""

from __future__ import annotations

import pytest

from redfuser.cascade.detect import detect
from redfuser.cascade.detection import Detection
from redfuser.expr import Axis, Expr, Tensor, axis, index, op
from tests.cascade.build import GraphBuilder, at, attention, axes, matmul, number, softmax


def test_attention_is_one_cascade_with_a_producer() -> None:
    g = GraphBuilder()
    o = attention(g)
    (cascade,) = detect(g.graph(o)).cascades
    assert cascade.name == "attention_0"
    assert [r.combiner for r in cascade.reductions] == ["max", "sum", "sum"]
    assert [p.result.name for p in cascade.producers] == ["dot0"]
    assert [t.name for t in cascade.inputs] == ["q", "k", "mask", "v"]
    assert [a.extent for a in cascade.rows] == [2, 5] and cascade.axis.extent == 7
    assert str(cascade.producers[0].map) == "(q[i0, i1, k0] * k[i0, l, k0])"
    assert str(cascade.reductions[0].map) == "((dot0[i0, i1, l] * 0.5) + mask[0, l])"
    assert cascade.onnx_nodes == tuple(f"node_{n}" for n in ("kt", "scores", "scaled", "masked", "p", "o"))


def test_hand_written_softmax_gives_the_same_cascade_as_the_operator() -> None:
    found = []
    for whole in (True, False):
        g = GraphBuilder()
        x, v = g.input("x", 2, 3, 8), g.input("v", 2, 8, 4)
        o = matmul(g, "o", softmax(g, x, whole=whole), v)
        found.append(str(detect(g.graph(o)).cascades[0]))
    assert found[0] == found[1]


def test_transposed_and_reshaped_output_is_stored_in_place() -> None:
    g = GraphBuilder()
    o = attention(g)
    i, c = axes("z", 5, 8)
    flat = g.define("flat", (i, c), at(o, op("floordiv", c, index(4)), i, op("floormod", c, index(4))))
    (cascade,) = detect(g.graph(flat)).cascades
    (output,) = cascade.outputs
    assert output.tensor == flat
    assert str(output.indices[1]) == "((i0 * 4) + j2)"


def test_a_cascade_reads_what_the_one_before_stores_and_nothing_behind() -> None:
    """An attention's heads side by side, scaled by their maximum: read per head, all heads would be made twice."""
    g = GraphBuilder()
    o = attention(g)
    r, c, j, k = axis("r", 5), axis("c", 8), axis("j", 5), axis("k", 8)
    i, n = axes("z", 5, 8)
    flat = g.define("flat", (i, n), at(o, op("floordiv", n, index(4)), i, op("floormod", n, index(4))))
    top = g.define("top", (), at(flat, j, k), "max", (j, k))
    shares = g.define("shares", (r, c), op("div", at(flat, r, c), at(top)))
    before, after = detect(g.graph(shares)).cascades
    assert [output.tensor for output in before.outputs] == list(after.inputs) == [flat]
    read = detect(g.graph(shares, o)).cascades[1].inputs
    assert [tensor.name for tensor in read] == ["o"]


def test_a_detour_through_one_axis_doesnt_part_a_cascade() -> None:
    g = GraphBuilder()
    x, v = g.input("x", 2, 3, 8), g.input("v", 2, 8, 4)
    p = softmax(g, x)
    (flat,), (a, b, c) = axes("f", 48), axes("r", 2, 3, 8)
    line = g.define("line", (flat,), at(p, *digits(flat)))
    place = op("add", op("add", op("mul", a, index(24)), op("mul", b, index(8))), c)
    back = g.define("back", (a, b, c), at(line, place))
    (cascade,) = detect(g.graph(matmul(g, "o", back, v))).cascades
    assert [r.combiner for r in cascade.reductions] == ["max", "sum", "sum"]


@pytest.mark.parametrize("use", ["view", "folded once"])
def test_a_cascade_reads_no_intermediate_of_another_operator(use: str) -> None:
    """A mean is a sum, which isn't kept, and its division, which is cheap enough to repeat wherever it is read."""
    g = GraphBuilder()
    x = g.input("x", 3, 7, 10)
    (i, j), k = axes("m", 3, 10), axis("k", 7)
    total = g.define("mean_sum", (i, j), at(x, i, k, j), "sum", (k,), inside="mean")
    mean = g.define("mean", (i, j), op("div", at(total, i, j), number(7)))
    if use == "view":
        result = softmax(g, mean)
    else:
        e = g.define("e", (i, j), op("exp", at(mean, i, j)))
        top = g.define("top", (i,), at(e, i, j), "max", (j,))
        r = axes("r", 3, 10)
        result = g.define("gap", (r[0],), op("sub", at(mean, r[0], r[1]), at(top, r[0])), "sum", (r[1],))
    found = detect(g.graph(result))
    assert [tensor.name for cascade in found.cascades for tensor in cascade.inputs] == ["mean"]


def digits(flat: Axis) -> tuple[Expr, Expr, Expr]:
    """Where the element of a [2, 3, 8] tensor lies whose place in memory is ``flat``."""
    rest = op("floormod", flat, index(24))
    return op("floordiv", flat, index(24)), op("floordiv", rest, index(8)), op("floormod", flat, index(8))


def test_grouped_query_heads_become_two_row_axes() -> None:
    g = GraphBuilder()
    q, k, v = g.input("q", 4, 3, 6), g.input("k", 2, 5, 6), g.input("v", 2, 5, 6)
    h, s, d = axes("e", 4, 5, 6)
    half = op("floordiv", h, index(2))
    kt = g.define("kt", (h, d, s), at(k, half, s, d))
    vv = g.define("vv", (h, s, d), at(v, half, s, d))
    o = matmul(g, "o", softmax(g, matmul(g, "scores", q, kt)), vv)
    (cascade,) = detect(g.graph(o)).cascades
    assert [a.extent for a in cascade.rows] == [2, 2, 3]
    assert "k[i0, l, k0]" in str(cascade.producers[0].map)


def test_scale_on_both_operands_leaves_the_sum() -> None:
    g = GraphBuilder()
    q, k, v = g.input("q", 2, 3, 4), g.input("k", 2, 4, 5), g.input("v", 2, 5, 4)
    a, b = axes("a", 2, 3, 4), axes("b", 2, 4, 5)
    qs = g.define("qs", a, op("mul", at(q, *a), number(0.5)))
    ks = g.define("ks", b, op("mul", at(k, *b), number(0.5)))
    o = matmul(g, "o", softmax(g, matmul(g, "scores", qs, ks)), v)
    (cascade,) = detect(g.graph(o)).cascades
    assert str(cascade.producers[0].map) == "(q[i0, i1, k0] * k[i0, k0, l])"
    assert str(cascade.reductions[0].map) == "(dot0[i0, i1, l] * 0.25)"


def test_probabilities_needed_elsewhere_are_an_output_and_scores_needed_elsewhere_no_producer() -> None:
    g = GraphBuilder()
    q, k, v = g.input("q", 2, 3, 4), g.input("k", 2, 4, 5), g.input("v", 2, 5, 4)
    scores = matmul(g, "scores", q, k)
    p = softmax(g, scores)
    o = matmul(g, "o", p, v)
    (cascade,) = detect(g.graph(o, p)).cascades
    assert {out.tensor.name for out in cascade.outputs} == {"o", "p"}
    assert cascade.producers
    (stored,) = detect(g.graph(o, scores)).cascades
    assert not stored.producers and "scores" in [t.name for t in stored.inputs]


def test_norm_ends_before_a_gather_and_before_a_product_with_a_weight() -> None:
    g = GraphBuilder()
    x, w = g.input("x", 3, 8), g.input("w", 8, 5, constant=True)
    rows, c, k = axis("r", 3), axis("c", 8), axis("k", 8)
    total = g.define("total", (rows,), op("mul", at(x, rows, k), at(x, rows, k)), "sum", (k,))
    y = g.define("y", (rows, c), op("mul", at(x, rows, c), op("rsqrt", at(total, rows))))
    z = matmul(g, "z", y, w)
    found = detect(g.graph(z))
    (cascade,) = found.cascades
    assert cascade.name == "norm_0"
    assert [out.tensor.name for out in cascade.outputs] == ["y"]
    assert [(b.cascade, b.onnx_nodes, b.reason.code) for b in found.boundaries] == [
        ("norm_0", ("node_z",), "weight-product")
    ]


def test_product_with_an_activation_joins_the_cascade() -> None:
    g = GraphBuilder()
    x, w = g.input("x", 3, 8), g.input("w", 8, 5)
    rows, c, k = axis("r", 3), axis("c", 8), axis("k", 8)
    total = g.define("total", (rows,), op("mul", at(x, rows, k), at(x, rows, k)), "sum", (k,))
    y = g.define("y", (rows, c), op("mul", at(x, rows, c), op("rsqrt", at(total, rows))))
    z = matmul(g, "z", y, w)
    (cascade,) = detect(g.graph(z)).cascades
    assert [r.combiner for r in cascade.reductions] == ["sum", "sum"]


def test_reduction_in_between_separates() -> None:
    """A result that comes back through another reduction isn't part of one pass."""
    g = GraphBuilder()
    x = g.input("x", 3, 8)
    rows, c, k = axis("r", 3), axis("c", 8), axis("k", 8)
    m = g.define("m", (rows,), at(x, rows, k), "max", (k,))
    n = g.define("n", (), at(m, axis("a", 3)), "sum", (axis("a", 3),))
    s = g.define("s", (rows,), op("sub", op("sub", at(x, rows, c), at(m, rows)), at(n)), "sum", (c,))
    found = detect(g.graph(s))
    assert not found.cascades
    assert [(r.members, r.reason.code) for r in found.rejected] == [(("m", "s"), "not-convex")]


def test_equal_extents_without_a_shared_element_are_no_cascade() -> None:
    g = GraphBuilder()
    x, y = g.input("x", 8, 8), g.input("y", 8, 8)
    rows, c, k = axis("r", 8), axis("c", 8), axis("k", 8)
    m = g.define("m", (rows,), at(x, rows, k), "max", (k,))
    s = g.define("s", (rows,), op("mul", at(y, rows, c), at(m, rows)), "sum", (c,))
    assert detect(g.graph(s)) == Detection(())


def test_group_that_has_no_common_place_is_cut_as_late_as_it_can_be() -> None:
    """A softmax over channels scales a map that is kept; the map's product with a weight must not cost the softmax."""
    g = GraphBuilder()
    gate, x, w = g.input("gate", 1, 8), g.input("x", 3, 8), g.input("w", 8)
    r, c = axes("r", 3, 8)
    p = softmax(g, gate)
    y = g.define("y", (r, c), op("mul", at(x, r, c), at(p, index(0), c)))
    z = g.define("z", (r,), op("mul", at(y, r, c), at(w, c)), "sum", (c,))
    found = detect(g.graph(y, z))
    assert [(cascade.name, len(cascade.reductions)) for cascade in found.cascades] == [("softmax_0", 2)]
    assert [(b.cascade, b.onnx_nodes, b.reason.code) for b in found.boundaries] == [
        ("softmax_0", ("node_z",), "misaligned")
    ]
    assert not found.rejected


def _two_sums(g: GraphBuilder) -> tuple[Tensor, Tensor, Axis]:
    """The sums of exp(x - max x) of two inputs, as tensors of their rows."""
    r, k = axis("r", 3), axis("k", 8)
    sums = []
    for name in ("x", "y"):
        x = g.input(name, 3, 8)
        m = g.define(f"m{name}", (r,), at(x, r, k), "max", (k,))
        sums.append(g.define(f"s{name}", (r,), op("exp", op("sub", at(x, r, k), at(m, r))), "sum", (k,)))
    return (*sums, r)


def test_what_uses_two_cascades_is_made_by_one_of_them() -> None:
    g = GraphBuilder()
    sx, sy, r = _two_sums(g)
    difference = g.define("difference", (r,), op("sub", at(sx, r), at(sy, r)))
    square = g.define("square", (r,), op("mul", at(difference, r), at(difference, r)))
    found = detect(g.graph(sx, sy, square))
    assert [[out.tensor.name for out in cascade.outputs] for cascade in found.cascades] == [["sx", "square"], ["sy"]]


def test_two_cascades_do_not_wait_for_each_other() -> None:
    """Each would take over an operation that reads the other's result."""
    g = GraphBuilder()
    sx, sy, r = _two_sums(g)
    own = g.define("own", (r,), op("add", at(sx, r), at(sy, r)))
    other = g.define("other", (r,), op("add", at(sy, r), at(sx, index(0))))  # one row of x for every row of y
    found = detect(g.graph(own, other))
    assert [[out.tensor.name for out in cascade.outputs] for cascade in found.cascades] == [["sx", "own"], ["sy"]]
    assert "sy" in [t.name for t in found.cascades[0].inputs]


def test_condition_guarded_load_is_rejected_with_its_reason() -> None:
    """One sink column appended to the scores: the load below the condition may leave its tensor."""
    g = GraphBuilder()
    x, sink = g.input("x", 3, 8), g.input("sink", 3, 1)
    r, c = axes("c", 3, 9)
    joined = g.define(
        "joined", (r, c), op("select", op("lt", c, index(8)), at(x, r, c), at(sink, r, op("sub", c, index(8))))
    )
    stored = detect(g.graph(softmax(g, joined)))
    assert [cascade.name for cascade in stored.cascades] == ["softmax_0"]
    assert "joined" in [t.name for t in stored.cascades[0].inputs]


def test_lone_sum_is_no_cascade() -> None:
    g = GraphBuilder()
    x = g.input("x", 3, 8)
    total = g.define("total", (axis("r", 3),), at(x, axis("r", 3), axis("k", 8)), "sum", (axis("k", 8),))
    assert not detect(g.graph(total)).cascades


def test_reduction_over_two_axes_is_flattened() -> None:
    g = GraphBuilder()
    x = g.input("x", 3, 4, 5)
    r, h, w = axes("a", 3, 4, 5)
    total = g.define("total", (r,), at(x, r, h, w), "sum", (h, w))
    y = g.define("y", (r, h, w), op("div", at(x, r, h, w), at(total, r)))
    (cascade,) = detect(g.graph(y)).cascades
    assert cascade.axis.extent == 20
    assert [str(i) for i in cascade.outputs[0].indices] == ["i0", "(l // 5)", "(l % 5)"]


@pytest.mark.parametrize("layers", [2, 4])
def test_chain_of_layers_gives_one_cascade_each(layers: int) -> None:
    g = GraphBuilder()
    x = g.input("x", 2, 6, 6)
    for n in range(layers):
        x = matmul(g, f"o{n}", softmax(g, x, f"p{n}"), x)
    found = detect(g.graph(x))
    assert len(found.cascades) == layers


def test_what_only_the_rest_of_a_group_held_together_falls_apart() -> None:
    """Norms of two vectors, whose product reads them turned by half (RoPE) and so has no place beside them."""
    g = GraphBuilder()
    r, c, k = axis("r", 8), axis("c", 8), axis("k", 8)
    turned = []
    for name in ("q", "k"):
        x = g.input(name, 8, 8)
        s = g.define(f"s{name}", (r,), op("mul", at(x, r, k), at(x, r, k)), "sum", (k,))
        n = g.define(f"n{name}", (r, c), op("div", at(x, r, c), at(s, r)))
        low = op("lt", c, index(4))
        halves = op("select", low, at(n, r, op("add", c, index(4))), at(n, r, op("sub", c, index(4))))
        turned.append(g.define(f"t{name}", (r, c), op("add", at(n, r, c), halves)))
    dot = g.define("dot", (r,), op("mul", at(turned[0], r, k), at(turned[1], r, k)), "sum", (k,))
    found = detect(g.graph(dot))
    assert [(cascade.name, len(cascade.reductions)) for cascade in found.cascades] == [("norm_0", 1), ("norm_1", 1)]
    assert [(b.cascade, b.onnx_nodes, b.reason.code) for b in found.boundaries] == [
        ("norm_0", ("node_dot",), "guarded-load"),
        ("norm_1", ("node_dot",), "guarded-load"),
    ]


def _norm(g: GraphBuilder, name: str, x: Tensor) -> Tensor:
    """Every row less its sum, times the sum of the squares of that: one binding, as that of a LayerNormalization."""
    (r, c), k = axes("r", *x.shape), axis("k", x.shape[-1])
    total = g.define(f"{name}_sum", (r,), at(x, r, k), "sum", (k,), name)
    less = op("sub", at(x, r, k), at(total, r))
    squares = g.define(f"{name}_squares", (r,), op("mul", less, less), "sum", (k,), name)
    return g.define(name, (r, c), op("mul", op("sub", at(x, r, c), at(total, r)), at(squares, r)))


def test_a_norm_of_what_a_norm_gave_in_other_rows_does_not_make_that_again() -> None:
    """Swin's merging of patches: the first norm's sum of squares, read by the second alone, is no product beside it."""
    g = GraphBuilder()
    first = _norm(g, "first", g.input("x", 8, 4))
    r, c = axes("v", 4, 8)
    row = op("add", op("mul", r, index(2)), op("floordiv", c, index(4)))
    pairs = g.define("pairs", (r, c), at(first, row, op("floormod", c, index(4))))
    found = detect(g.graph(matmul(g, "y", _norm(g, "second", pairs), g.input("w", 8, 8, constant=True))))
    assert [(cascade.name, len(cascade.reductions)) for cascade in found.cascades] == [("norm_0", 2), ("norm_1", 2)]
    assert not found.rejected


@pytest.mark.parametrize("same", [True, False])
def test_a_product_of_two_norms_is_not_folded_with_them(same: bool) -> None:
    """Norms of queries and keys, then their product: each norm would be made again for every row of the other."""
    g = GraphBuilder()
    r, c, k = axis("r", 8), axis("c", 8), axis("k", 8)
    m = r if same else axis("m", 8)
    norms = []
    for name in ("q", "k"):
        x = g.input(name, 8, 8)
        s = g.define(f"s{name}", (r,), op("mul", at(x, r, k), at(x, r, k)), "sum", (k,))
        norms.append(g.define(f"n{name}", (r, c), op("div", at(x, r, c), at(s, r))))
    dot = g.define("dot", (r,) if same else (r, m), op("mul", at(norms[0], r, k), at(norms[1], m, k)), "sum", (k,))
    found = detect(g.graph(dot))
    expected = [("moments_0", 3)] if same else [("norm_0", 1), ("norm_1", 1)]
    assert [(cascade.name, len(cascade.reductions)) for cascade in found.cascades] == expected
    assert [(b.cascade, b.onnx_nodes, b.reason.code) for b in found.boundaries] == (
        [] if same else [("norm_0", ("node_dot",), "crossed-rows"), ("norm_1", ("node_dot",), "crossed-rows")]
    )


def test_whole_maxima_of_a_residual_stream_are_no_chain() -> None:
    """T5 in half precision clamps the stream where any element is infinite, and reads it widened in between."""
    g = GraphBuilder()
    r, c, j, k = axis("r", 4), axis("c", 8), axis("j", 4), axis("k", 8)
    x = g.input("x", 4, 8)
    first = g.define("first", (), at(g.opaque("unlike", x, shape=(4, 8)), j, k), "max", (j, k))
    clamped = g.define("clamped", (r, c), op("min", at(x, r, c), at(first)))
    wide = g.define("wide", (r, c), op("mul", at(clamped, r, c), at(clamped, r, c)))
    total = g.define("total", (r,), at(wide, r, k), "sum", (k,))
    made = g.opaque("made", total, shape=(4, 8))
    second = g.define("second", (), op("add", at(clamped, j, k), at(made, j, k)), "max", (j, k))
    assert not detect(g.graph(second)).rejected
