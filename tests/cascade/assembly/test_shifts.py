"""The maximum of what is measured from its maximum is no reduction of its own, where a whole softmax shows it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from redfuser.cascade.assembly.shifts import take_maximum_once
from redfuser.cascade.assembly.tails import split_tails
from redfuser.cascade.canonical import canonicalise
from redfuser.cascade.combiners import accumulate, identity
from redfuser.cascade.detect import detect
from redfuser.cascade.graph import Graph
from redfuser.cascade.model import Cascade
from redfuser.expr import Tensor, axis, cast, loads, op
from redfuser.expr.evaluate import evaluate, open_mesh
from redfuser.extents import Dim, size_of
from tests.cascade.assembly.test_tails import concat, without_last
from tests.cascade.build import GraphBuilder, at, axes, matmul, number, softmax


def shifted(g: GraphBuilder, x: Tensor, top: Tensor | None = None, name: str = "shifted") -> Tensor:
    """``x`` minus its maxima, or those of other rows, kept as an axis of one place."""
    *rows, last = axes("d", *x.shape)
    maxima = top or g.define(f"{name}.top", (*rows, axis("u", 1)), at(x, *rows, last), "max", (last,))
    return g.define(name, (*rows, last), op("sub", at(x, *rows, last), at(maxima, *rows, 0)))


def shifted_by_a_reshaped_maximum(g: GraphBuilder, x: Tensor) -> Tensor:
    rows = axes("d", *x.shape)
    top = g.define("top", rows[:-1], at(x, *rows), "max", rows[-1:])
    again = axes("v", *x.shape[:-1], 1)
    return shifted(g, x, g.define("again", again, at(top, *again[:-1])))


def shifted_and_cast(g: GraphBuilder, x: Tensor) -> Tensor:
    """Measured in half precision, for a softmax in single precision."""
    place = axes("h", *x.shape)
    half = g.define("half", place, cast(at(x, *place), "float16"))
    return g.define("single", place, cast(at(shifted(g, half), *place), "float32"))


def shifted_twice(g: GraphBuilder, x: Tensor) -> Tensor:
    return shifted(g, shifted(g, x), name="again")


def as_it_is(g: GraphBuilder, x: Tensor) -> Tensor:
    return x


Shift = Callable[[GraphBuilder, Tensor], Tensor]


def attention(shift: Shift, rows: int = 5, whole: bool = True) -> Graph:
    g = GraphBuilder()
    p = softmax(g, shift(g, g.input("x", 1, rows, 7)), whole=whole)
    return g.graph(matmul(g, "o", p, g.input("v", 1, 7, 4)))


def written_out(shift: Shift, leaves: str = "") -> Graph:
    """The difference in the exponential is a definition of its own; one named leaves the model."""
    g = GraphBuilder()
    x = shift(g, g.input("x", 5, 7))
    *rows, last = axes("e", 5, 7)
    m = g.define("m", (*rows, axis("w", 1)), at(x, *rows, last), "max", (last,))
    m = g.define("m.again", m_axes := (*rows, axis("w", 1)), at(m, *m_axes))
    d = g.define("d", (*rows, last), op("sub", at(x, *rows, last), at(m, *rows, 0)))
    e = g.define("e", (*rows, last), op("exp", at(d, *rows, last)))
    t = g.define("t", (*rows, axis("w", 1)), at(e, *rows, last), "sum", (last,))
    p = g.define("p", (*rows, last), op("div", at(e, *rows, last), at(t, *rows, 0)))
    o = matmul(g, "o", p, g.input("v", 7, 4))
    return g.graph(o, *([g.definitions[leaves].tensor] if leaves else []))


def sink(shift: Shift) -> Graph:
    g = GraphBuilder()
    p = softmax(g, shift(g, concat(g, g.input("scores", 5, 7), g.input("sink", 5, 1))))
    return g.graph(matmul(g, "o", without_last(g, p, 7), g.input("v", 7, 4)))


def cascade_of(graph: Graph) -> Cascade:
    settled = split_tails(take_maximum_once(graph))
    settled.verify()
    (cascade,) = detect(settled).cascades
    return canonicalise(cascade).cascade


@pytest.mark.parametrize("shift", [shifted, shifted_by_a_reshaped_maximum, shifted_twice])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("whole", [True, False])
def test_both_spellings_are_one_cascade(shift: Shift, rows: int, whole: bool) -> None:
    assert cascade_of(attention(shift, rows, whole)) == cascade_of(attention(as_it_is, rows, whole))


@pytest.mark.parametrize("shift", [shifted, shifted_twice])
def test_a_softmax_written_out_is_the_same(shift: Shift) -> None:
    assert cascade_of(written_out(shift)) == cascade_of(written_out(as_it_is))


def test_the_nodes_of_a_maximum_that_is_gone_are_covered() -> None:
    graph = take_maximum_once(written_out(shifted))
    assert not {"m", "m.again"} & graph.inputs_of.keys()
    (cascade,) = detect(graph).cascades
    assert {"node_m", "node_m.again", "node_d"} <= set(cascade.onnx_nodes)


def test_a_cast_of_the_difference_is_seen_through() -> None:
    (maximum, *sums) = cascade_of(attention(shifted_and_cast)).reductions
    assert [maximum.combiner, *(r.combiner for r in sums)] == ["max", "sum", "sum"]
    assert str(sums[0].map) == "exp(float32((float16(x0[0, i0, l]) - max0[i0])))"


def test_both_spellings_of_a_sink_are_one_cascade() -> None:
    assert cascade_of(sink(shifted)) == cascade_of(sink(as_it_is))


def values(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every tensor of a graph, definition by definition, in float64."""
    memory: dict[Tensor, np.ndarray] = {}
    for definition in graph.definitions.values():
        for node in {n.tensor for n in loads(definition.body)} - memory.keys():
            memory[node] = inputs[node.name]
        shape = tuple(a.extent for a in (*definition.axes, *definition.reduced))
        mesh = open_mesh((*definition.axes, *definition.reduced), {})
        value = np.broadcast_to(evaluate(definition.body, memory, mesh, "float64"), shape)
        if definition.is_reduction:
            count = len(definition.reduced)
            value = value.reshape(*definition.tensor.shape, -1) if count else value[..., None]
            start = np.full(definition.tensor.shape, identity(definition.combiner, value.dtype))
            value = accumulate(definition.combiner, start, value)
        memory[definition.tensor] = value
    return {tensor.name: value for tensor, value in memory.items()}


@pytest.mark.filterwarnings("ignore:invalid value")
def test_rows_of_infinities_and_nan_stay_as_they_are() -> None:
    x = np.random.default_rng(0).standard_normal((1, 9, 7))
    x[0, 1:5, 2] = np.inf, -np.inf, np.nan, np.inf
    x[0, 4, 5] = np.inf
    x[0, 5], x[0, 6], x[0, 7] = np.inf, -np.inf, np.nan
    x[0, 8, :2] = np.nan, np.inf
    inputs = {"x": x, "v": np.random.default_rng(1).standard_normal((1, 7, 4))}
    graph = attention(shifted, rows=9)
    once = take_maximum_once(graph)
    assert len(once.definitions) == len(graph.definitions) - 1
    expected, found = values(graph, inputs), values(once, inputs)
    assert np.isnan(expected["o"]).any(axis=-1)[0].tolist() == [False, True, False, *[True] * 6]
    for name in ("p", "o"):
        np.testing.assert_array_equal(found[name], expected[name])


def other_rows() -> Graph:
    """Measured from the maxima of another tensor: an infinite one hides nothing."""
    g = GraphBuilder()
    rows = axes("r", 5, 7)
    top = g.define("top", (rows[0], axis("u", 1)), at(g.input("z", 5, 7), *rows), "max", rows[1:])
    return g.graph(softmax(g, shifted(g, g.input("x", 5, 7), top)))


def other_axis() -> Graph:
    g = GraphBuilder()
    x = g.input("x", 7, 7)
    rows = axes("r", 7, 7)
    top = g.define("top", (rows[1], axis("u", 1)), at(x, *rows), "max", rows[:1])
    return g.graph(softmax(g, shifted(g, x, top)))


def minimum() -> Graph:
    g = GraphBuilder()
    x = g.input("x", 5, 7)
    rows = axes("r", 5, 7)
    top = g.define("low", (rows[0], axis("u", 1)), at(x, *rows), "min", rows[1:])
    return g.graph(softmax(g, shifted(g, x, top)))


def read_elsewhere(name: str) -> Graph:
    """The named part of the softmax leaves the model."""
    g = GraphBuilder()
    p = softmax(g, shifted(g, g.input("x", 5, 7)), whole=False)
    return g.graph(p, g.definitions[name].tensor)


def with_one_more() -> Graph:
    """``exp(d - m) / (1 + Σ exp(d - m))``: the sum isn't the divisor."""
    g = GraphBuilder()
    d = shifted(g, g.input("x", 5, 7))
    r, s = axes("r", 5, 7)
    m = g.define("m", (r,), at(d, r, s), "max", (s,))
    e = g.define("e", (r, s), op("exp", op("sub", at(d, r, s), at(m, r))))
    t = g.define("t", (r,), at(e, r, s), "sum", (s,))
    return g.graph(g.define("p", (r, s), op("div", at(e, r, s), op("add", number(1.0), at(t, r)))))


def whole_numbers() -> Graph:
    """Of integers, whose differences may wrap around."""
    g = GraphBuilder()
    place = axes("f", 5, 7)
    d = shifted(g, g.input("x", 5, 7, dtype="int32"))
    return g.graph(softmax(g, g.define("f", place, cast(at(d, *place), "float32"))))


def maybe_empty() -> Graph:
    g = GraphBuilder()
    x = Tensor("x", (5, size_of(Dim("n", 0, 9))), "float32")
    g.stored.add("x")
    return g.graph(softmax(g, shifted(g, x)))


@pytest.mark.parametrize(
    "graph",
    [
        attention(as_it_is),
        other_rows(),
        other_axis(),
        minimum(),
        *map(read_elsewhere, ("p_max", "p_exp", "p_sum")),
        written_out(shifted, leaves="d"),
        with_one_more(),
        whole_numbers(),
        maybe_empty(),
    ],
    ids=[
        "nothing subtracted",
        "the maximum of something else",
        "the maximum along another axis",
        "the minimum",
        "the maximum leaves the model",
        "the exponentials leave the model",
        "the sum leaves the model",
        "the difference leaves the model",
        "divided by more than the sum",
        "integers",
        "maybe no element",
    ],
)
def test_anything_else_keeps_its_maximum(graph: Graph) -> None:
    assert take_maximum_once(graph) is graph
