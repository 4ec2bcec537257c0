"""Equal cascades share one canonical form, different ones don't."""

from __future__ import annotations

from redfuser.cascade.canonical import canonicalise
from redfuser.cascade.detect import detect
from tests.cascade.build import GraphBuilder, attention, matmul, softmax


def test_layers_of_equal_shape_are_equal() -> None:
    g = GraphBuilder()
    x = g.input("x", 2, 6, 6)
    for n in range(3):
        x = matmul(g, f"o{n}", softmax(g, x, f"p{n}"), x)
    forms = [canonicalise(c) for c in detect(g.graph(x)).cascades]
    assert len({form.cascade for form in forms}) == 1
    assert [form.inputs for form in forms] == [("x",), ("o0",), ("o1",)]
    assert forms[2].outputs == ("o2",)
    forms[0].cascade.verify()


def test_other_extents_or_other_maps_are_not_equal() -> None:
    small, large = GraphBuilder(), GraphBuilder()
    a = detect(small.graph(attention(small, kv_len=7))).cascades[0]
    b = detect(large.graph(attention(large, kv_len=8))).cascades[0]
    assert canonicalise(a).cascade != canonicalise(b).cascade
