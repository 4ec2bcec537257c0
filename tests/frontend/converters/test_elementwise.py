"""Elementwise operators on what isn't finite, and casts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import helper

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from tests.frontend.converters.checking import RNG, check, normal
from tests.frontend.running import loaded, lower_and_run, run, single

NAN, INF = math.nan, math.inf


def test_clip_keeps_nan() -> None:
    x = np.array([-2, -1, 0, 1, 2, NAN, INF, -INF], np.float32)
    numbers = {"low": np.array(-1, np.float32), "high": np.array(1.5, np.float32)}
    check(single("Clip", {"x": x}, numbers), {"x": x})
    check(single("Clip", {"x": x, **numbers}), {"x": x, **numbers})
    finite = {"x": x[:6]}
    check(single("Clip", finite, {"_low": x, "high": numbers["high"]}), finite)
    crossed = {"low": np.array(1, np.float32), "high": np.array(-1, np.float32)}
    assert np.nanmax(lower_and_run(single("Clip", {"x": x}, crossed), {"x": x})[0]) == -1


def test_infinities_of_either_sign() -> None:
    x = np.array([INF, -INF, NAN, 1], np.float32)
    for attributes in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        check(single("IsInf", {"x": x}, opset=20, **attributes), {"x": x})


@pytest.mark.parametrize("length", [1, 37])
def test_truth_values_that_are_equal(length: int) -> None:
    """As Speech2Text's masks are, to a constant; other types are compared as they are."""
    x, y = RNG.random((2, 3, length)) < 0.5
    check(single("Equal", {"x": x, "y": y}), {"x": x, "y": y})
    check(single("Equal", {"x": x}, {"true": np.array(True)}), {"x": x})
    numbers = np.array([1, NAN, INF], np.float32)
    assert lower_and_run(single("Equal", {"x": numbers}, {"y": numbers}), {"x": numbers})[0].tolist() == [1, 0, 1]


@pytest.mark.parametrize("exponent", [np.float32(2), np.float32(3), np.float32(0.5), np.int64(3)])
def test_powers(exponent: np.generic) -> None:
    x = np.abs(normal(2, 3)) + 0.1
    check(single("Pow", {"x": x}, {"e": np.array(exponent)}), {"x": x})


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
@pytest.mark.parametrize("exponent", [4, 7, 9, 16])
def test_small_powers_are_products(exponent: int, dtype: type, capfd: pytest.CaptureFixture[str]) -> None:
    """Also of negative numbers, of which TVM would warn. YOSO takes the ninth."""
    x = np.array([-1.5, -1, 0, 1.25, 1.5, np.inf, -np.inf, np.nan] if dtype is not np.int64 else [-3, 0, 2], dtype)
    (got,) = lower_and_run(single("Pow", {"x": x}, {"e": np.array(exponent, np.int64)}), {"x": x})
    np.testing.assert_allclose(
        got, x.astype(float) ** exponent, rtol=0 if dtype is np.int64 else exponent * np.finfo(dtype).eps
    )
    assert got.dtype == dtype and capfd.readouterr().err == ""


def test_powers_from_seventeen_on_are_the_library_s() -> None:
    x = np.array([1.1, 2], np.float32)
    check(single("Pow", {"x": x}, {"e": np.array(17.0, np.float32)}), {"x": x})


def test_powers_of_integers() -> None:
    x = np.array([[-3, 2, 7]])
    check(single("Pow", {"x": x, "e": np.array([3, 10, 2])}), {"x": x, "e": np.array([3, 10, 2])})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_casts_to_small_integers_wrap_and_have_no_numbers_for_what_is_not_finite(dtype: str) -> None:
    x = np.array(
        [0.0, -0.9, 1.9, -3.5, 127.0, 128.0, -129.0, 300.0, 70000.0, -70000.0, 3e9, NAN, INF, -INF], np.float32
    )
    proto = single("Cast", {"x": x}, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))
    (got,) = run(lower(loaded(proto)), {"x": x})
    inside = np.where(np.abs(x) < 2**31, x, 0).astype(np.int64)
    np.testing.assert_array_equal(got, inside.astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_remainders_are_exact(dtype: type) -> None:
    """Of quotients too large to be divided exactly, and of what isn't finite."""
    x, y = np.meshgrid(*[np.array([1e15, -7, 2.5, 1e-3, 0, -0.0, INF, -INF, NAN], dtype)] * 2)
    with np.errstate(invalid="ignore"):
        expected = np.fmod(x, y)
    (got,) = lower_and_run(single("Mod", {"x": x, "y": y}, fmod=1), {"x": x, "y": y})
    np.testing.assert_array_equal(got, expected)


def test_remainders_of_integers_stay() -> None:
    x, y = np.array([[7, -7, 5]]), np.array([[3], [-3]])
    for attributes, function in (({}, np.mod), ({"fmod": 1}, np.fmod)):
        (got,) = lower_and_run(single("Mod", {"x": x, "y": y}, **attributes), {"x": x, "y": y})
        np.testing.assert_array_equal(got, function(x, y))


def test_a_remainder_without_fmod_is_for_integers() -> None:
    proto = single("Mod", {"x": normal(3), "y": normal(3)})
    with pytest.raises(UnsupportedOperatorError, match="fmod = 0 of floating-point operands is not implemented"):
        lower(loaded(proto))


def test_boxes_with_samples_of_their_own_are_refused() -> None:
    feeds = {"x": normal(1, 2, 8, 8), "boxes": np.array([[0, 0, 5, 5]], np.float32), "images": np.array([0])}
    lower(loaded(single("RoiAlign", feeds, sampling_ratio=2)))
    with pytest.raises(UnsupportedOperatorError, match="sampling_ratio = 0, as many samples as a box is large,"):
        lower(loaded(single("RoiAlign", feeds)))
