"""The accuracy rule: what passes and what breaks it."""

from __future__ import annotations

import ml_dtypes  # noqa: F401 - its types by name
import numpy as np
import pytest

from redfuser.accuracy import compare

EXACT = np.linspace(1, 2, 100)


def off(error: float) -> np.ndarray:
    return (EXACT + error).astype(np.float32)


def test_twice_the_unfused_error_passes_and_more_fails() -> None:
    baseline = off(1e-3)
    assert compare(off(1.9e-3), EXACT, baseline, "float32").passed
    worse = compare(off(2.1e-3), EXACT, baseline, "float32")
    assert not worse.passed and "exceeds" in worse.reason
    assert compare(off(2.9e-3), EXACT, baseline, "float16").passed


def test_rounding_passes_where_the_baseline_is_exact() -> None:
    assert compare(off(1e-6), EXACT, EXACT, "float32").passed
    assert not compare(off(1e-5), EXACT, EXACT, "float32").passed


def test_without_a_baseline_the_tolerance_alone_counts() -> None:
    assert compare(off(1e-6), EXACT, None, "float32").passed
    assert not compare(off(1e-3), EXACT, None, "float32").passed


def test_nan_and_infinity_stand_exactly_where_the_reference_has_them() -> None:
    exact = np.array([1.0, np.nan, np.inf, -np.inf])
    assert compare(exact.astype(np.float32), exact, exact, "float32").passed
    for place, value in ((0, np.nan), (1, 0.0), (2, -np.inf), (3, np.nan)):
        wrong = exact.copy()
        wrong[place] = value
        result = compare(wrong, exact, exact, "float32")
        assert not result.passed and f"({place},)" in result.reason


def test_what_overflows_in_the_baseline_too_may_overflow() -> None:
    exact, overflown = np.array([1.0, 1e60]), np.array([1.0, np.inf])
    assert compare(overflown, exact, overflown, "float32").passed
    assert not compare(overflown, exact, np.array([1.0, 3e38]), "float32").passed


def test_integers_are_exact_but_for_ties_the_baseline_decides_alike() -> None:
    exact, baseline = np.array([1, 2, 3]), np.array([1, 3, 2])
    assert compare(np.array([1, 2, 3]), exact, None, "int64").passed
    assert compare(np.array([1, 3, 2]), exact, baseline, "int64").passed
    result = compare(np.array([1, 1, 3]), exact, baseline, "int64")
    assert not result.passed and "1 of 3" in result.reason


def test_shapes_must_agree() -> None:
    assert "shape" in compare(np.ones(3), np.ones((3, 1)), None, "float32").reason


def test_text_form() -> None:
    assert str(compare(off(0), EXACT, EXACT, "float32")).endswith(": passed")
    assert "FAILED" in str(compare(off(1), EXACT, None, "float32"))


def test_nothing_compares_equal_to_nothing() -> None:
    empty = np.zeros((0, 3))
    assert compare(empty, empty, empty, "float32").passed


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_may_round_otherwise_now_and_then(name: str) -> None:
    exact = np.linspace(1, 2, 100).astype(np.dtype(name))
    near = exact.copy()
    near[0] = 1.125 if "e4m3" in name else 1.25
    assert compare(near, exact, None, name).passed
    assert not compare(exact[::-1], exact, None, name).passed


def test_narrow_integers_are_exact() -> None:
    exact = np.arange(8).astype("int4")
    assert compare(exact, exact, None, "int4").passed
    assert not compare(exact[::-1], exact, None, "int4").passed


def test_a_baseline_of_another_shape_counts_for_nothing() -> None:
    exact = np.ones((2, 3))
    assert compare(np.ones((2, 3), np.float32), exact, np.ones(6, np.float32), "float32").passed
    assert not compare(np.zeros((2, 3), np.float32), exact, np.ones(6, np.float32), "float32").passed
