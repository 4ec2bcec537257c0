"""Softmax, norms and statistics as machine code, against the tile interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.codegen.cpu import generate
from redfuser.expr import axis
from redfuser.expr.evaluate import numpy_dtype
from tests.codegen.cpu.programs import assert_matches, run, target, typed_softmax
from tests.tile.build import Rows, program, random_inputs

CASCADES = ["softmax", "logsumexp", "variance", "layer_norm", "quantise", "two_softmaxes"]
STREAMED = ["softmax", "logsumexp", "variance", "layer_norm"]


def rows(count: int, length: int) -> Rows:
    return Rows(axis("i", count), axis("l", length))


@pytest.mark.parametrize("name", CASCADES)
@pytest.mark.parametrize("length", [1, 7, 16, 200])
def test_resident_with_the_row_in_lanes(name: str, length: int) -> None:
    cascade = getattr(rows(3, length), name)()
    assert_matches(program(cascade, "resident", 1, "l", l=100), random_inputs(cascade))


@pytest.mark.parametrize("name", STREAMED)
@pytest.mark.parametrize("lanes", ["l", "i", ""])
def test_streamed_whatever_lies_in_lanes(name: str, lanes: str) -> None:
    cascade = getattr(rows(19, 150), name)()
    assert_matches(program(cascade, "single-segment", 1, lanes, i=16, l=64), random_inputs(cascade))


@pytest.mark.parametrize("name", ["logsumexp", "variance"])
def test_segments(name: str) -> None:
    cascade = getattr(rows(2, 1000), name)()
    assert_matches(program(cascade, "multi-segment", 3, "l", l=128), random_inputs(cascade))


def test_moments_around_a_large_mean() -> None:
    cascade = rows(4, 500).variance()
    inputs = {"x": random_inputs(cascade)["x"] + np.float32(1000)}
    assert_matches(program(cascade, "single-segment", 1, "l", l=64), inputs)


@pytest.mark.parametrize("strategy", ["resident", "single-segment"])
def test_rows_of_minus_infinity_and_nan(strategy: str) -> None:
    cascade = rows(6, 90).softmax()
    inputs = random_inputs(cascade)
    inputs["x"][1], inputs["x"][2, :64], inputs["x"][3, 17], inputs["x"][4, 80] = -np.inf, -np.inf, np.nan, np.inf
    got = assert_matches(program(cascade, strategy, 1, "l", l=64), inputs)["y0"]
    assert np.isnan(got[[1, 3, 4]]).all() and np.isfinite(got[[0, 2, 5]]).all()


@pytest.mark.parametrize("device", ["cpu", "cpu-avx2", "cpu-x86-64"])
@pytest.mark.parametrize("size", [1e-36, 1e-39, 1e-41, 1e-44, 1e36])
def test_quotients_by_a_row_s_own_largest_whatever_its_size(size: float, device: str) -> None:
    """The reciprocal of a subnormal number is infinite; each quotient here is a whole number of quarters."""
    cascade = rows(4, 90).absmax_scaled()
    x = np.round(np.random.default_rng(0).uniform(-4, 4, (4, 90))).astype(np.float32)
    x[:, 7], x[2], x[3, 5] = 4, 0, np.inf
    unit = np.float32(size)
    got = run(program(cascade, "resident", 1, "l", l=90), {"x": x * unit}, device)["y0"]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, (x * unit) / np.abs(x * unit).max(-1, keepdims=True), rtol=1e-7)


def test_a_maximum_keeps_the_nan_it_saw() -> None:
    cascade = rows(2, 70).two_softmaxes()
    inputs = random_inputs(cascade)
    inputs["x"][0, 3] = np.nan
    assert np.isnan(run(program(cascade, "resident", 1, "l", l=70), inputs)["y1"]).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_types(dtype: str) -> None:
    cascade = typed_softmax(dtype)
    inputs = {"x": np.random.default_rng(0).standard_normal((3, 70)).astype(numpy_dtype(dtype))}
    assert_matches(program(cascade, "resident", 1, "l", l=40), inputs)


@pytest.mark.parametrize("scaled", [True, False])
def test_quotients_by_sums_of_exponentials_need_no_care_for_subnormal_ones(scaled: bool) -> None:
    cascade = rows(4, 90).absmax_scaled() if scaled else rows(4, 90).softmax()
    text = str(generate(program(cascade, "resident", 1, "l", l=90), target("cpu")))
    assert ("factor" in text) == scaled
