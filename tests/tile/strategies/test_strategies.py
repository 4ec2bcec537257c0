"""Every strategy's program equals the direct evaluation of its cascade in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.algebra.derivation import Component, Derivation, Recurrence
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import axis, load, op
from redfuser.tile import Schedule, StrategyError, build, interpret, verify
from redfuser.tile.ir import Contract, Stream
from redfuser.tile.strategies.multi_segment import MERGE_ROWS
from tests.cascade.reference import evaluate_cascade
from tests.tile.build import ITEM, ROW, STRATEGIES, Attention, Inputs, Rows, keep, program, random_inputs, tensor, value

CAUSAL_KEYS = np.tri(7, 13, 0, dtype=bool)


def assert_equal(cascade: Cascade, inputs: Inputs, strategy: str, **tiles: int) -> dict[str, Any]:
    """The program agrees with the cascade, NaNs included; gives the outputs."""
    made = program(cascade, strategy, segments=3 if strategy == "multi-segment" else 1, **tiles)
    actual = interpret(made, inputs, "float64")
    for name, expected in evaluate_cascade(cascade, inputs).items():
        np.testing.assert_allclose(actual[name], expected, rtol=1e-12, atol=1e-13, err_msg=f"{name}\n{made}")
    return actual


ATTENTIONS = {
    "plain": Attention(mask="none"),
    "masked": Attention(),
    "guard": Attention(guard=True),
    "bool-mask": Attention(mask="bool"),
    "grouped": Attention(heads=4, groups=2),
    "wide-values": Attention(dim=3, v_dim=6),
    "one-key": Attention(kv_len=1, mask="none"),
    "one-query": Attention(q_len=1),
    "one-feature": Attention(dim=1, v_dim=1),
    "soft-cap": Attention(score=lambda s: op("mul", op("tanh", op("div", s, value(2))), value(2))),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str, strategy: str) -> None:
    case = ATTENTIONS[name]
    assert_equal(case.cascade(), case.inputs(), strategy, i=4, j=5)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("tiles", [{}, {"i": 7, "j": 13}, {"i": 1, "j": 1}, {"h": 2, "i": 3, "j": 4}])
def test_any_tiles_give_the_same_result(tiles: dict[str, int], strategy: str) -> None:
    assert_equal(Attention().cascade(), Attention().inputs(), strategy, **tiles)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("guard", [False, True])
def test_rows_without_a_visible_key(strategy: str, guard: bool) -> None:
    case = Attention(guard=guard)
    visible = CAUSAL_KEYS.copy()
    visible[2] = False  # no key at all: NaN, or 0 with the guard
    visible[3] = np.arange(13) >= 5  # a hidden first tile, then finite ones
    out = assert_equal(case.cascade(), case.inputs(visible), strategy, i=4, j=5)["out"]
    assert np.isnan(out[0, 2]).all() != guard
    assert np.isfinite(np.delete(out, 2, axis=1)).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("spoil", [np.nan, np.inf, -np.inf])
def test_zero_times_what_is_not_finite_shows_in_guarded_rows(strategy: str, spoil: float) -> None:
    """The guard puts 0 in place of a probability; 0 · NaN and 0 · ∞ are NaN."""
    case = Attention(guard=True)
    visible = np.ones((7, 13), dtype=bool)
    visible[2] = False
    inputs = case.inputs(visible)
    inputs["v"][0, 1, 9, 2] = spoil
    out = assert_equal(case.cascade(), inputs, strategy, i=4, j=5)["out"][0].reshape(7, 2, 4)
    assert np.isnan(out[2, 1, 2]) and (out[2, 0] == 0).all() and (out[2, 1, [0, 1, 3]] == 0).all()
    inputs["q"][0, 0, 5, 0] = np.nan
    out = assert_equal(case.cascade(), inputs, strategy, i=4, j=5)["out"][0].reshape(7, 2, 4)
    assert (out[5, 0] == 0).all()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_finfo_min_hides_every_key_to_the_uniform_mean(strategy: str) -> None:
    """In float32 the score vanishes beside finfo.min, so that all keys weigh the same."""
    case = Attention(mask="bool")
    visible = np.ones((7, 13), dtype=bool)
    visible[2] = False
    made = program(case.cascade(), strategy, segments=2, i=4, j=5)
    inputs = case.inputs(visible)
    out = interpret(made, inputs)["out"]
    np.testing.assert_allclose(out[0, 2].reshape(2, 4), inputs["v"][0].mean(axis=1), rtol=1e-5)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_nan_and_infinity_stay_in_their_row(strategy: str) -> None:
    case = Attention(mask="none")
    inputs = case.inputs()
    inputs["q"][0, 0, 1, 0] = np.nan
    inputs["q"][0, 1, 5, 0] = np.inf
    assert_equal(case.cascade(), inputs, strategy, i=4, j=5)


ROWS = {name: getattr(Rows(), name)() for name in ("softmax", "logsumexp", "layer_norm", "variance", "two_softmaxes")}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ROWS)
def test_row_cascades(name: str, strategy: str) -> None:
    cascade = ROWS[name]
    assert_equal(cascade, random_inputs(cascade), strategy, i=2, l=5)


def test_outputs_along_the_axis_are_written_by_blocks_that_merge_for_themselves() -> None:
    rows = Rows()
    m, t, probability = rows.softmax_parts()
    both = rows.cascade("both_0", (m, t), probability, t.value)
    grids = [
        [{tile.axis.name for tile in phase.grid} for phase in program(c, "multi-segment", segments=2, l=5).phases]
        for c in (ROWS["logsumexp"], ROWS["softmax"], both)
    ]
    shared, apart = {"segment", "i"}, {"i"}
    assert grids == [[shared, apart], [shared, shared], [shared, apart, shared]]
    assert_equal(both, random_inputs(both), "multi-segment", i=2, l=5)


def test_resident_carries_what_is_not_incremental() -> None:
    cascade = Rows().quantise()
    assert_equal(cascade, random_inputs(cascade), "resident", i=2, l=5)
    with pytest.raises(StrategyError):
        program(cascade, "single-segment")


def test_variance_is_stable_far_from_zero() -> None:
    cascade = Rows(ROW, axis("l", 4000)).variance()
    x = np.random.default_rng(0).standard_normal((5, 4000)) + 1000
    for strategy in STRATEGIES:
        made = program(cascade, strategy, segments=4, i=2, l=64)
        result = interpret(made, {"x": x.astype(np.float32)})["y0"]
        np.testing.assert_allclose(result, x.astype(np.float32).astype(np.float64).var(axis=1), rtol=1e-4)


def test_products_become_contractions_and_vectors_do_not() -> None:
    def contractions(case: Attention) -> int:
        (phase,) = program(case.cascade(), "single-segment", i=4, j=5).phases
        (stream,) = (s for s in phase.body if isinstance(s, Stream))
        return sum(isinstance(s, Contract) for s in stream.body)

    assert contractions(Attention()) == 2
    assert contractions(Attention(q_len=1)) == 0


def test_value_axis_is_tiled_only_where_every_output_has_it() -> None:
    case = Attention(v_dim=6)
    made = program(case.cascade(), "single-segment", i=4, j=5, e=4)
    assert "e:4" in map(str, made.phases[0].grid)
    with pytest.raises(StrategyError, match="tiled-axis-not-stored"):
        program(case.cascade(), "multi-segment", segments=2, e=4)


def test_blocks_that_merge_may_have_fewer_rows() -> None:
    case = Attention()
    cascade, inputs = case.cascade(), case.inputs()
    plain = program(cascade, "multi-segment", segments=3, i=4, j=5)
    schedule = replace(plain.schedule, options=((MERGE_ROWS, 2),))
    made = build(cascade, derive(cascade), schedule)
    verify(made)
    assert [tile.size for tile in made.phases[1].grid if tile.axis.name == "i"] == [2]
    assert made.phases[0] == plain.phases[0]
    for name, result in interpret(plain, inputs).items():
        np.testing.assert_array_equal(interpret(made, inputs)[name], result)


def test_segments_are_whole_tiles_and_never_empty() -> None:
    case = Attention()
    for wanted, expected in ((1, 1), (2, 2), (3, 3), (50, 3)):
        made = program(case.cascade(), "multi-segment", segments=wanted, i=4, j=5)
        assert made.phases[0].grid[0].axis.extent == expected


def test_states_that_depend_on_each_other_in_a_ring() -> None:
    """Two components that exchange their places at every tile."""
    first, second = (load(tensor(name, ROW), ROW) for name in ("s.0", "s.1"))
    case = Rows()
    total = case.reduction("s", "sum", case.x)
    cascade = case.cascade("ring", (total,), total.value)
    parts = (
        Component(first.tensor, "sum", case.x, (None, value(1))),
        Component(second.tensor, "sum", value(0), (value(1), None)),
    )
    recurrence = Recurrence(total.result, "mul", parts, None, op("add", first, second))
    derivation = Derivation("ring", "finite-rank", (recurrence,), "exact", ())
    made = build(cascade, derivation, Schedule("single-segment", (("l", 5),)))
    verify(made)
    x = random_inputs(cascade)
    np.testing.assert_allclose(interpret(made, x, "float64")["y0"], x["x"].astype(np.float64).sum(axis=1))


def test_name_and_unknown_strategy() -> None:
    cascade = Rows().softmax()
    assert build(cascade, derive(cascade), Schedule("resident"), "kernel_3").name == "kernel_3"
    with pytest.raises(ValueError, match="no program"):
        build(cascade, derive(cascade), Schedule("unfused"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_row_axis_that_an_output_lacks_stays_in_the_block(strategy: str) -> None:
    """Two blocks must not store one element."""
    h = axis("h", 3)
    x, y = load(tensor("x", ROW, ITEM), ROW, ITEM), load(tensor("y", h, ITEM), h, ITEM)
    norm = Reduction(tensor("s", ROW), "sum", (ROW,), ITEM, op("mul", x, x))
    dot = Reduction(tensor("o", h, ROW), "sum", (h, ROW), ITEM, op("div", op("mul", x, y), norm.value))
    outputs = (keep("y0", dot.value, (h, ROW)), keep("y1", norm.value, (ROW,)))
    cascade = Cascade("cosine", (h, ROW), ITEM, (x.tensor, y.tensor), (), (norm, dot), outputs)
    assert_equal(cascade, random_inputs(cascade), strategy, h=2, i=2, l=5)
    assert [t.axis for t in program(cascade, strategy, segments=2, h=2, i=2).phases[-1].grid] == [ROW]


@pytest.mark.parametrize("combiner", ["max", "min", "sum", "prod"])
def test_integers(combiner: str) -> None:
    x = load(tensor("x", ROW, ITEM, dtype="int64"), ROW, ITEM)
    fold = Reduction(tensor("s", ROW, dtype="int64"), combiner, (ROW,), ITEM, x)
    cascade = Cascade("c", (ROW,), ITEM, (x.tensor,), (), (fold,), (keep("y", fold.value, (ROW,)),))
    inputs = {"x": np.random.default_rng(0).integers(-3, 3, (5, 23))}
    result = assert_equal(cascade, inputs, "resident", l=5)
    assert result["y"].dtype == np.int64


def test_an_empty_axis_is_resident_only() -> None:
    cascade, derivation = Rows(ROW, axis("l", 0)).logsumexp(), derive(Rows().logsumexp())
    made = build(cascade, derivation, Schedule("resident"))
    verify(made)
    assert (interpret(made, random_inputs(cascade))["y0"] == -np.inf).all()
    for strategy in ("single-segment", "multi-segment"):
        with pytest.raises(StrategyError, match="not-incremental"):
            build(cascade, derivation, Schedule(strategy))


@pytest.mark.parametrize("strategy", ["single-segment", "resident"])
def test_probabilities_that_are_outputs_too(strategy: str) -> None:
    """They take another pass over the scores: recomputed where the axis is streamed, kept where it is resident."""
    case = Attention()
    whole = case.cascade()
    m, t, _ = whole.reductions
    probabilities = keep("p", op("div", op("exp", op("sub", m.map, m.value)), t.value), (*whole.rows, whole.axis))
    cascade = replace(whole, outputs=(*whole.outputs, probabilities))
    cascade.verify()
    assert_equal(cascade, case.inputs(), strategy, i=4, j=5)
    products = str(program(cascade, strategy, i=4, j=5)).count("contract dot")
    assert products == (2 if strategy == "single-segment" else 1)
