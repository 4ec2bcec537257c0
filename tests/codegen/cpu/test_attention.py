"""Attention in its forms as machine code, against the tile interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.codegen.cpu import check_kernel, generate
from redfuser.expr import Expr, number, op
from redfuser.tile.trials import trial_inputs
from tests.codegen.cpu.programs import assert_matches, run, target
from tests.tile.build import STRATEGIES, Attention, program

F32 = np.float32


def soft_cap(score: Expr) -> Expr:
    return op("mul", op("tanh", op("div", score, number(50, "float32"))), number(50, "float32"))


FORMS = {
    "plain": Attention(mask="none", q_len=20, kv_len=40, dim=16, v_dim=16),
    "additive mask": Attention(q_len=20, kv_len=40, dim=16, v_dim=16),
    "bool mask": Attention(mask="bool", q_len=20, kv_len=40),
    "guard": Attention(guard=True, q_len=20, kv_len=40),
    "grouped heads": Attention(heads=4, groups=2, q_len=20, kv_len=40),
    "soft cap": Attention(q_len=20, kv_len=40, score=soft_cap),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str, strategy: str) -> None:
    attention = FORMS[form]
    assert_matches(program(attention.cascade(), strategy, 2, "i", i=16, j=16), attention.inputs())


@pytest.mark.parametrize("lanes", ["i", "j", ""])
@pytest.mark.parametrize("queries", [1, 5, 33])
def test_tails_of_queries_whatever_lies_in_lanes(queries: int, lanes: str) -> None:
    attention = Attention(q_len=queries, kv_len=37, dim=8, v_dim=24)
    assert_matches(program(attention.cascade(), "single-segment", 1, lanes, i=16, j=16), attention.inputs())


@pytest.mark.parametrize("lanes", ["i", "j", ""])
@pytest.mark.parametrize("queries", [5, 7])
def test_two_row_axes_in_one_tile(queries: int, lanes: str) -> None:
    attention = Attention(heads=4, q_len=queries, kv_len=24, dim=8, v_dim=8, mask="none")
    assert_matches(program(attention.cascade(), "single-segment", 1, lanes, h=4, i=5, j=5), attention.inputs())


@pytest.mark.parametrize("strategy", ["single-segment", "multi-segment"])
@pytest.mark.parametrize("mask", ["causal", "window"])
@pytest.mark.parametrize("spoil", [0.0, np.nan, np.inf])
def test_what_a_mask_hides_is_skipped_unless_it_shows(mask: str, strategy: str, spoil: float) -> None:
    attention = Attention(mask=mask, q_len=37, kv_len=45, dim=16, v_dim=16)
    inputs = attention.inputs()
    inputs["v"][0, 0, 40] += spoil
    skipping = program(attention.cascade(), strategy, 2, "i", skip=True, i=16, j=16)
    out = assert_matches(skipping, inputs)["out"].reshape(37, 2, 16)
    assert np.isnan(out[:, 0]).any() == bool(spoil) and not np.isnan(out[:, 1]).any()


TABLES = {
    "causal": np.tril(np.ones((37, 45), dtype=bool)),
    "left padding": np.tril(np.ones((37, 45), dtype=bool)) & (np.arange(45) >= 20),
    "right padding": np.broadcast_to(np.arange(45) < 5, (37, 45)).copy(),
    "nothing": np.zeros((37, 45), dtype=bool),
}


@pytest.mark.parametrize("strategy", ["single-segment", "multi-segment"])
@pytest.mark.parametrize("table", TABLES)
def test_what_a_table_hides_with_finite_numbers_is_skipped_unless_it_shows(table: str, strategy: str) -> None:
    attention = Attention(mask="bool", q_len=37, kv_len=45, dim=16, v_dim=16)
    skipping = program(attention.cascade(), strategy, 2, "i", skip=True, i=16, j=16)
    inputs = attention.inputs(TABLES[table])
    assert_matches(skipping, inputs)
    inputs["k"][0, 1] *= 1e30
    inputs["v"][0, 0, 40, 3] = np.nan
    out = assert_matches(skipping, inputs)["out"].reshape(37, 2, 16)
    assert np.isnan(out[:, 0, 3]).all()


@pytest.mark.parametrize(("dim", "v_dim"), [(1, 1), (5, 7), (72, 80), (16, 5)])
@pytest.mark.parametrize("queries", [1, 18])
def test_any_head_size(dim: int, v_dim: int, queries: int) -> None:
    attention = Attention(q_len=queries, kv_len=21, dim=dim, v_dim=v_dim)
    lanes = "i" if queries > 1 else ""
    assert_matches(program(attention.cascade(), "single-segment", 1, lanes, i=16, j=16), attention.inputs())


@pytest.mark.parametrize("device", ["cpu-avx2", "cpu-x86-64"])
@pytest.mark.parametrize("queries", [1, 37])
def test_narrow_vectors(queries: int, device: str) -> None:
    attention = Attention(q_len=queries, kv_len=40, dim=24, v_dim=24)
    assert_matches(program(attention.cascade(), "single-segment", 1, "i", i=32, j=16), attention.inputs(), device)


def test_rows_with_every_key_hidden() -> None:
    visible = np.ones((20, 40), dtype=bool)
    visible[3], visible[4, :16], visible[5, 16:] = False, False, False
    for strategy in STRATEGIES:
        bare = Attention(q_len=20, kv_len=40)
        got = assert_matches(program(bare.cascade(), strategy, 2, "i", i=16, j=16), bare.inputs(visible))["out"]
        assert np.isnan(got[0, 3]).all() and not np.isnan(np.delete(got[0], 3, 0)).any()
        guarded = Attention(q_len=20, kv_len=40, guard=True)
        got = assert_matches(program(guarded.cascade(), strategy, 2, "i", i=16, j=16), guarded.inputs(visible))["out"]
        assert (got[0, 3] == 0).all()
        inputs = guarded.inputs(visible)
        inputs["v"][0, 0, 17, 1], inputs["v"][0, 1, 0, 2] = np.inf, np.nan
        got = assert_matches(program(guarded.cascade(), strategy, 2, "i", i=16, j=16), inputs)["out"]
        assert np.isnan(got[0, 3].reshape(2, 4)).sum(axis=1).tolist() == [1, 1]


def test_values_as_large_as_the_axis_allows_stay_finite() -> None:
    """The division comes last: sums of values up to the largest number over the axis's length don't overflow."""
    attention = Attention(q_len=20, kv_len=40, mask="none")
    inputs = attention.inputs()
    inputs["v"] = np.copysign(np.float32(3.4e38 / 40), inputs["v"])
    assert_matches(program(attention.cascade(), "single-segment", 1, "i", i=16, j=16), inputs)


def test_a_nan_score_shows_in_its_row_alone() -> None:
    attention = Attention(q_len=20, kv_len=40)
    inputs = attention.inputs(np.ones((20, 40), dtype=bool))
    inputs["mask"][7, 11] = np.nan
    got = run(program(attention.cascade(), "single-segment", 1, "i", i=16, j=16), inputs)["out"]
    assert np.isnan(got[0, 7]).all() and not np.isnan(np.delete(got[0], 7, 0)).any()


def test_scores_far_apart() -> None:
    attention = Attention(q_len=20, kv_len=64, mask="none")
    inputs = attention.inputs()
    inputs["q"] *= 200
    assert_matches(program(attention.cascade(), "single-segment", 1, "i", i=16, j=16), inputs)


def test_segments_of_unequal_length() -> None:
    attention = Attention(q_len=3, kv_len=70)
    for segments in (2, 3, 5):
        assert_matches(program(attention.cascade(), "multi-segment", segments, "", i=3, j=8), attention.inputs())


def test_the_mask_is_transposed_on_chip() -> None:
    attention = Attention(q_len=32, kv_len=64, dim=16, v_dim=16)
    text = generate(program(attention.cascade(), "single-segment", 1, "i", i=32, j=32), target()).script()
    assert "mask_staged" in text and "T.Shuffle" in text


def test_every_result_is_written_once_where_the_last_block_overlaps() -> None:
    attention = Attention(q_len=70, kv_len=16)
    assert_matches(program(attention.cascade(), "single-segment", 1, "i", i=64, j=16), attention.inputs())


@pytest.mark.parametrize("form", ["plain", "bool mask"])
def test_the_check_accepts_a_right_kernel(form: str) -> None:
    attended = program(FORMS[form].cascade(), "single-segment", 1, "i", i=16, j=16)
    error = check_kernel(attended, generate(attended, target()), target(), seed=3)
    assert error is not None and error.passed


def test_the_check_leaves_something_to_see_of_a_mask_that_all_rows_share() -> None:
    attended = program(Attention(mask="bool", q_len=1, kv_len=33).cascade(), "single-segment", 1, "i", i=1, j=16)
    (shared,) = [tensor for tensor in attended.inputs if tensor.dtype == "bool"]
    assert all(inputs[shared.name].any() for inputs in trial_inputs(attended, seed=0))


def test_the_check_refuses_a_wrong_kernel() -> None:
    right = program(FORMS["plain"].cascade(), "single-segment", 1, "i", i=16, j=16)
    wrong = program(
        Attention(mask="none", q_len=20, kv_len=40, dim=16, v_dim=16, score=lambda s: op("abs", s)).cascade(),
        "single-segment",
        1,
        "i",
        i=16,
        j=16,
    )
    error = check_kernel(right, generate(wrong, target()), target(), seed=3)
    assert error is not None and not error.passed


def test_the_check_gives_nothing_for_a_processor_that_is_not_this_one() -> None:
    import dataclasses

    foreign = dataclasses.replace(target("cpu-avx512"), features=("amx-bf16", "amx-int8", "amx-tile", "avx512fp16"))
    attended = program(FORMS["plain"].cascade(), "single-segment", 1, "i", i=16, j=16)
    from redfuser.codegen.cpu.build import runs_here

    if runs_here(foreign):
        pytest.skip("this processor has everything")
    assert check_kernel(attended, generate(attended, foreign), foreign, seed=0) is None
