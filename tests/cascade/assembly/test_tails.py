"""Short tails of concatenations: attention sinks become part of the cascade, all else stays as it is."""

from __future__ import annotations

import pytest

from redfuser.cascade.assembly.tails import split_tails
from redfuser.cascade.detect import detect
from redfuser.cascade.graph import Graph
from redfuser.expr import Tensor, index, op
from tests.cascade.build import GraphBuilder, at, axes, matmul, number, softmax


def concat(g: GraphBuilder, head: Tensor, tail: Tensor, name: str = "joined") -> Tensor:
    """As lowering writes it, along the last dimension."""
    length = head.shape[-1]
    *rows, last = axes("c", *head.shape[:-1], length + tail.shape[-1])
    beyond = at(tail, *rows, op("sub", last, index(length)))
    return g.define(name, (*rows, last), op("select", op("le", index(length), last), beyond, at(head, *rows, last)))


def without_last(g: GraphBuilder, x: Tensor, count: int) -> Tensor:
    place = axes("w", *x.shape[:-1], count)
    return g.define("cut", place, at(x, *place))


def sink(tail: int = 1, kept: int = 7, whole_is_output: bool = False) -> Graph:
    g = GraphBuilder()
    joined = concat(g, g.input("scores", 5, 7), g.input("sink", 5, tail))
    p = softmax(g, joined)
    o = matmul(g, "o", without_last(g, p, kept), g.input("v", kept, 4))
    return g.graph(o, *([p] if whole_is_output else []))


@pytest.mark.parametrize("tail", [1, 3])
def test_a_sink_joins_the_cascade(tail: int) -> None:
    graph = split_tails(sink(tail))
    graph.verify()
    (cascade,) = detect(graph).cascades
    assert [r.combiner for r in cascade.reductions] == ["max", "sum", "sum"]
    assert {t.name for t in cascade.inputs} == {"scores", "sink", "v"}
    assert cascade.axis.extent == 7


@pytest.mark.parametrize(
    "graph",
    [sink(kept=8), sink(whole_is_output=True), sink(tail=5)],
    ids=["the tail is read too", "the whole leaves the model", "no short tail"],
)
def test_where_the_whole_axis_is_read_nothing_changes(graph: Graph) -> None:
    assert split_tails(graph) is graph


def test_a_cache_that_grows_by_one_is_no_tail() -> None:
    g = GraphBuilder()
    keys = concat(g, g.input("past", 4, 7), g.input("new", 4, 1))
    scores = matmul(g, "scores", g.input("q", 5, 4), keys)
    p = softmax(g, scores)
    graph = g.graph(matmul(g, "o", p, g.input("v", 8, 4)))
    assert split_tails(graph) is graph


def test_a_guarded_load_is_no_concatenation() -> None:
    g = GraphBuilder()
    x = g.input("x", 5, 8)
    place = axes("g", 5, 8)
    masked = g.define("masked", place, op("select", op("le", place[0], place[1]), at(x, *place), number(0.0)))
    graph = g.graph(softmax(g, masked))
    assert split_tails(graph) is graph
