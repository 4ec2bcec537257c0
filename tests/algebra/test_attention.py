"""Safe softmax and its product with values: the derivation the tile stage relies on, expression by expression."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.algebra.certificates.replay import Replay, direct
from redfuser.cascade.model import Cascade
from redfuser.expr import Const, Expr, Op, cast, op
from tests.algebra.build import LENGTH, ROW, Builder, attention, literal, nan_guard, score, softmax, tensor

ONE = ((range(LENGTH),),)
TILES = (tuple(range(n, n + 5) if n + 5 <= LENGTH else range(n, LENGTH) for n in range(0, LENGTH, 5)),)
SPLIT = ((range(0, 4), range(4, 9)), (range(9, LENGTH),))


def scores(fill: float = 0.0) -> np.ndarray:
    values = np.random.default_rng(0).normal(size=(3, LENGTH)) * 5
    values[0, :7] = -math.inf
    values[1, 3:] = -math.inf
    values[2, :] += fill
    return values


def run(cascade: Cascade, s: np.ndarray, parts: tuple[tuple[range, ...], ...]) -> tuple[np.ndarray, np.ndarray]:
    v = np.random.default_rng(1).normal(size=(LENGTH, 4))
    tensors = {t: {"s": s, "v": v}[t.name] for t in cascade.inputs}
    last = cascade.reductions[-1].result
    return Replay(cascade, derive(cascade), tensors).run(parts)[last], direct(cascade, tensors)[last]


def test_the_recurrences_read_as_on_paper() -> None:
    m, t, o = derive(attention()).recurrences
    assert str(m.base) == "select((m[i] == -inf), 0, m[i])"
    assert str(m.finish) == "m.0[i]" and m.state[0].correction == ()
    assert str(t.state[0].element) == "exp((s[i, l] - m.base[i]))"
    assert [str(c) for c in t.state[0].correction] == ["exp((m.previous[i] - m.base[i]))"]
    assert str(t.finish) == "(t.0[i] * exp((m.base[i] - m[i])))"
    assert str(o.finish) == "((o.0[i, d] * exp((m.base[i] - m[i]))) / t[i])"
    assert t.base is None and o.base is None and t.transform == o.transform == "mul"


def test_the_weights_are_the_elements_of_the_sum() -> None:
    _, t, o = derive(attention()).recurrences
    product = o.state[0].element
    assert isinstance(product, Op) and product.name == "mul"
    assert product.args[0] == t.state[0].element and str(product.args[1]) == "v[l, d]"


def test_the_score_is_the_same_expression_in_maximum_and_exponential() -> None:
    masked = op("select", op("gt", score("mask"), literal(0)), score(), Const("float32", -math.inf))
    capped = op("mul", op("tanh", op("div", masked, literal(30))), literal(30))
    m, t, _ = derive(attention(capped)).recurrences
    exponent = t.state[0].element.children[0]
    assert m.state[0].element == capped and exponent.children[0] == capped


@pytest.mark.parametrize("parts", [ONE, TILES, SPLIT])
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("fill", [0.0, -math.inf, math.inf, math.nan, 1e4])
def test_values_and_nans_are_those_of_the_unfused_graph(
    parts: tuple[tuple[range, ...], ...], guarded: bool, fill: float
) -> None:
    cascade = attention(wrap=nan_guard) if guarded else attention()
    found, expected = run(cascade, scores(fill), parts)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_a_row_of_minus_infinity_is_nan_and_the_guard_makes_it_zero() -> None:
    s = scores(-math.inf)
    assert np.isnan(run(attention(), s, TILES)[0][2]).all()
    assert (run(attention(wrap=nan_guard), s, TILES)[0][2] == 0).all()


def cleared(p: Expr) -> Expr:
    """Probabilities with zeros where a condition on the row, which the graph has as an input, holds."""
    return op("select", op("eq", tensor("bias", ROW), literal(-math.inf)), literal(0), p)


def test_a_row_that_the_graph_clears_is_zero_whatever_its_sum() -> None:
    cascade, s = attention(wrap=cleared), scores(-math.inf)
    finish = "select((bias[i] == -inf), 0, ((o.0[i, d] * exp((m.base[i] - m[i]))) / t[i]))"
    assert str(derive(cascade).recurrences[-1].finish) == finish
    v = np.random.default_rng(1).normal(size=(LENGTH, 4))
    tensors = {t: {"s": s, "v": v, "bias": np.array([0, 0, -math.inf])}[t.name] for t in cascade.inputs}
    found = Replay(cascade, derive(cascade), tensors).run(TILES)[cascade.reductions[-1].result]
    np.testing.assert_allclose(found, direct(cascade, tensors)[cascade.reductions[-1].result], atol=1e-14)
    assert (found[2] == 0).all()


def test_half_precision_accumulates_in_float32() -> None:
    build = Builder()
    _, t, e = softmax(build, score(dtype="float16"))
    build.reduce("u", "sum", op("mul", op("div", e, t), score("w", "float16")))
    _, total, weighted = derive(build.build()).recurrences
    assert total.state[0].tensor.dtype == weighted.state[0].element.dtype == "float32"
    assert total.finish.dtype == weighted.finish.dtype == "float16"


def test_casts_stay_where_the_graph_has_them() -> None:
    wide = cast(score(dtype="float16"), "float32")
    _, t, _ = derive(attention(wide)).recurrences
    assert str(t.state[0].element) == "exp((float32(s[i, l]) - m.base[i]))"


def test_a_sink_column_joins_the_maximum() -> None:
    build = Builder()
    sink = tensor("sink", ROW)
    top = op("max", build.reduce("m", "max", score()), sink)
    e = op("exp", op("sub", score(), top))
    t = op("add", build.reduce("t", "sum", e), op("exp", op("sub", sink, top)))
    build.reduce("o", "sum", op("mul", op("div", e, t), score("v")))
    derivation = derive(build.build())
    assert derivation.form == "rank-1", derivation


def test_temperature_of_unknown_sign_is_still_safe() -> None:
    build = Builder()
    m = build.reduce("m", "max", score())
    scaled = op("mul", op("sub", score(), m), tensor("temperature"))
    build.reduce("t", "sum", op("exp", scaled))
    assert derive(build.build()).incremental


def guarded_by(p: Expr) -> Expr:
    return op("select", op("isnan", p), literal(0), p)


@pytest.mark.parametrize("wrap", [nan_guard, guarded_by])
def test_the_guard_moves_to_the_row(wrap: Callable[[Expr], Expr]) -> None:
    derivation = derive(attention(wrap=wrap))
    value = "((o.0[i, d] * exp((m.base[i] - m[i]))) / t[i])"
    hidden = "select((t.0[i] == 0), select((abs(o.0[i, d]) < inf), 0, t[i]), 0)"
    assert str(derivation.recurrences[2].finish) == f"select(isnan(t[i]), {hidden}, {value})"
    assert any(proof.by == "guard proof" for proof in derivation.proofs)


def test_a_guard_on_the_whole_element_clears_it_whatever_the_value() -> None:
    build = Builder()
    m = build.reduce("m", "max", score())
    e = op("exp", op("sub", score(), m))
    t = build.reduce("t", "sum", e)
    element = op("mul", op("div", e, t), score("v"))
    build.reduce("o", "sum", op("select", op("isnan", t), literal(0), element))
    assert str(derive(build.build()).recurrences[2].finish).startswith("select(isnan(t[i]), 0, ")


@pytest.mark.parametrize("spelling", ["reciprocal", "times one", "negated maximum", "logarithm", "log-sum-exp"])
def test_the_guard_moves_however_the_probability_is_written(spelling: str) -> None:
    build = Builder()
    m = build.reduce("m", "max", score())
    shifted = op("sub", score(), m)
    e = op("exp", op("add", score(), op("mul", m, literal(-1))) if spelling == "negated maximum" else shifted)
    t = build.reduce("t", "sum", op("exp", shifted))
    p = {
        "reciprocal": op("mul", op("div", literal(1), t), e),
        "times one": op("mul", op("div", e, t), literal(1)),
        "negated maximum": op("div", e, t),
        "logarithm": op("exp", op("sub", shifted, op("log", t))),
        "log-sum-exp": op("exp", op("sub", score(), op("add", op("log", t), m))),
    }[spelling]
    build.reduce("o", "sum", op("mul", nan_guard(p), score("v")))
    derivation = derive(build.build())
    assert derivation.incremental and any(proof.by == "guard proof" for proof in derivation.proofs)


@pytest.mark.parametrize("spelling", ["negated", "times one", "subtracted"])
def test_a_log_sum_exp_is_put_off_by_its_terms(spelling: str) -> None:
    build = Builder()
    m = build.reduce("m", "max", score())
    t = build.reduce("t", "sum", op("exp", op("sub", score(), m)))
    total = op("add", op("log", t), m)
    exponent = {
        "negated": op("add", score(), op("mul", total, literal(-1))),
        "times one": op("sub", score(), op("mul", total, literal(1))),
        "subtracted": op("sub", score(), total),
    }[spelling]
    build.reduce("o", "sum", op("mul", op("exp", exponent), score("v")))
    assert derive(build.build()).form == "rank-1"


def test_a_guard_without_its_maximum_is_refused() -> None:
    build = Builder()
    e = op("exp", score())
    t = build.reduce("t", "sum", e)
    build.reduce("o", "sum", op("mul", nan_guard(op("div", e, t)), score("v")))
    obstacle = derive(build.build()).obstacle
    assert obstacle is not None and obstacle.code == "guard-not-proved" and "maximum" in obstacle.text


def test_a_guard_on_another_score_is_refused() -> None:
    build = Builder()
    m = build.reduce("m", "max", score())
    e = op("exp", op("sub", score("other"), m))
    t = build.reduce("t", "sum", e)
    build.reduce("o", "sum", op("mul", nan_guard(op("div", e, t)), score("v")))
    obstacle = derive(build.build()).obstacle
    assert obstacle is not None and obstacle.code == "guard-not-proved" and "very same score" in obstacle.text
