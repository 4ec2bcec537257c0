"""Random cascades: what is declared fusible equals the unsplit value at every cut; what isn't has a witness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redfuser.algebra import Memo, derive
from redfuser.algebra.certificates.replay import Replay, direct
from redfuser.cascade.model import Cascade
from redfuser.expr import Axis, Expr, Tensor, axis, load, number, op
from tests.algebra.build import Builder

LENGTH = 11
SHORT = axis("l", LENGTH)
ROW = Axis("int64", "i", 3)
MEMO: Memo = {}


def element(name: str) -> Expr:
    return load(Tensor(name, (ROW.extent, LENGTH), "float64"), ROW, SHORT)


def literal(value: float) -> Expr:
    return number(value, "float64")


X, Y = element("x"), element("y")
ELEMENTS = st.sampled_from([X, Y, op("abs", X), op("mul", X, Y), op("tanh", Y), op("exp", X), literal(2)])


@st.composite
def rank_one(draw: st.DrawFn) -> Cascade:
    """A chain of reductions whose maps are products of element factors and functions of earlier results."""
    build = Builder(SHORT)
    m = build.reduce("m", draw(st.sampled_from(["max", "min"])), X)
    results = [build.reduce("q", "sum", op("exp", op("sub", X, m)) if draw(st.booleans()) else op("exp", Y))]
    for number_ in range(draw(st.integers(1, 2))):
        factor: Expr = draw(ELEMENTS)
        for _ in range(draw(st.integers(1, 3))):
            result = draw(st.sampled_from(results))
            positive = op("add", op("abs", result), literal(1))
            by = [results[0], positive, op("sqrt", positive), literal(0.5)]
            factor = op(draw(st.sampled_from(["mul", "div"])), factor, draw(st.sampled_from(by)))
            if draw(st.booleans()):
                factor = op("mul", factor, draw(ELEMENTS))
        if draw(st.booleans()):
            factor = op("mul", op("exp", op("mul", op("sub", X, m), literal(0.5))), factor)
        results.append(build.reduce(f"r{number_}", "sum", factor))
    return build.build()


@st.composite
def polynomial(draw: st.DrawFn) -> Cascade:
    """A sum of products of differences from earlier means: finite rank, if it isn't too large."""
    build = Builder(SHORT)
    means = [op("div", build.reduce(f"s{n}", "sum", e), literal(LENGTH)) for n, e in enumerate((X, Y))]
    total: Expr = literal(0.25)
    for _ in range(draw(st.integers(1, 2))):
        term: Expr = draw(ELEMENTS)
        for _ in range(draw(st.integers(1, 2))):
            term = op("mul", term, op("sub", draw(st.sampled_from([X, Y])), draw(st.sampled_from(means))))
        total = op(draw(st.sampled_from(["add", "sub"])), total, term)
    build.reduce("o", "sum", total)
    return build.build()


@st.composite
def not_closing(draw: st.DrawFn) -> Cascade:
    """A map through which no change of base passes."""
    build = Builder(SHORT)
    r = build.reduce("r", draw(st.sampled_from(["max", "sum"])), X)
    gap = op("sub", draw(st.sampled_from([X, Y])), r)
    function = draw(st.sampled_from(["tanh", "abs", "round", "sigmoid", "erf", "floor"]))
    build.reduce("o", "sum", op("mul", op(function, gap), draw(ELEMENTS)))
    return build.build()


def contents(cascade: Cascade, seed: int) -> dict[Tensor, np.ndarray]:
    generator = np.random.default_rng(seed)
    return {t: generator.normal(size=t.shape) * generator.choice([0.3, 3.0]) for t in cascade.inputs}


def check_every_cut(cascade: Cascade, seed: int) -> None:
    derivation = derive(cascade, memo=MEMO)
    assert derivation.incremental, f"{cascade}\n{derivation}"
    tensors = contents(cascade, seed)
    expected = direct(cascade, tensors)
    replay = Replay(cascade, derivation, tensors)
    for cut in range(1, LENGTH):
        found = replay.run([[range(cut)], [range(cut, LENGTH)]])
        streamed = replay.run([[range(cut), range(cut, LENGTH)]])
        for reduction in cascade.reductions:
            want = expected[reduction.result]
            for got in (found, streamed):
                np.testing.assert_allclose(got[reduction.result], want, rtol=1e-8, atol=1e-8 * (1 + np.abs(want).max()))


def check_rank_one(cascade: Cascade, seed: int) -> None:
    obstacle = derive(cascade, memo=MEMO).obstacle
    if obstacle is None:
        check_every_cut(cascade, seed)
    else:
        # A score of -∞ that is a factor too, or a NaN that cancels: finite data never fail.
        assert obstacle.code == "witness-failed", f"{cascade}\n{obstacle}"
        assert "inf" in obstacle.text or "NaN" in obstacle.text, f"{cascade}\n{obstacle}"


def check_polynomial(cascade: Cascade, seed: int) -> None:
    obstacle = derive(cascade, memo=MEMO).obstacle
    if obstacle is None:
        check_every_cut(cascade, seed)
    else:
        # Of too high a rank, or with terms that cancel where the data are large, which the check notices.
        cancels = obstacle.code == "witness-failed" and "on large " in obstacle.text
        assert cancels or "independent after" in obstacle.text, f"{cascade}\n{obstacle}"


def check_refusal(cascade: Cascade) -> None:
    obstacle = derive(cascade, memo=MEMO).obstacle
    assert obstacle is not None and obstacle.code == "not-finite-rank"
    assert "r[i]" in obstacle.witness and "[i, l]" in obstacle.witness


SEEDS = st.integers(0, 10)
FEW = settings(max_examples=40, deadline=None)
#: 700 examples each, or as many as ``--hypothesis-profile`` says; see conftest.py
MANY = settings(deadline=None)

test_rank_one = FEW(given(rank_one(), SEEDS)(check_rank_one))
test_polynomials_in_means = FEW(given(polynomial(), SEEDS)(check_polynomial))
test_witness_of_a_refusal_names_the_mixing_part = FEW(given(not_closing())(check_refusal))

test_many_rank_one = pytest.mark.slow(MANY(given(rank_one(), SEEDS)(check_rank_one)))
test_many_polynomials_in_means = pytest.mark.slow(MANY(given(polynomial(), SEEDS)(check_polynomial)))
test_many_refusals = pytest.mark.slow(MANY(given(not_closing())(check_refusal)))
