"""Weights that were quantised are found again, bit by bit, and others are left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redfuser.codegen.cpu.remainder.products.codes.coding import LEAST, Coding, encode, find_coding

COLUMNS = LEAST // 512


def dequantised(
    depth: int, bits: int, block: int, low: int, high: int, seed: int = 0, columns: int = COLUMNS
) -> np.ndarray[Any, Any]:
    """A weight, (depth, columns), of random integers in a range, one of each block's own at least, times scales."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(low, high + 1, (columns, depth // block, block)).astype("f4")
    scales = ((rng.random((columns, depth // block, 1)) + 0.1) / 100).astype("f4")
    return np.ascontiguousarray((numbers * scales).reshape(columns, depth).T)


def decoded(weight: np.ndarray[Any, Any], coding: Coding) -> np.ndarray[Any, Any]:
    codes = encode(weight, coding.bits, coding.block)
    assert codes is not None
    half = 1 << (coding.bits - 1)
    assert codes.codes.min() >= -half and codes.codes.max() < half
    assert coding.shifted or not codes.shifts.any()
    numbers = codes.codes.reshape(len(codes.scales), coding.block, -1).astype("f4") - codes.shifts[:, None]
    return (numbers * codes.scales[:, None]).reshape(weight.shape)


@pytest.mark.parametrize(
    ("bits", "block", "low", "high", "shifted"),
    [
        pytest.param(4, 32, -8, 7, False, id="4 bits"),
        pytest.param(4, 32, -7, 8, False, id="by a negative scale"),
        pytest.param(4, 128, 0, 15, True, id="4 bits, one sign"),
        pytest.param(4, 16, -12, 3, True, id="4 bits, shifted"),
        pytest.param(4, 256, -1, 1, False, id="three numbers"),
        pytest.param(8, 32, -128, 127, False, id="8 bits"),
        pytest.param(8, 256, 0, 255, True, id="8 bits, one sign"),
    ],
)
def test_a_quantised_weight_is_found(bits: int, block: int, low: int, high: int, shifted: bool) -> None:
    weight = dequantised(512, bits, block, low, high)
    coding = find_coding(weight)
    assert coding == Coding(bits, block, shifted)
    np.testing.assert_array_equal(decoded(weight, coding), weight)


def test_a_scale_for_a_column_is_one_for_each_of_its_blocks() -> None:
    weight = dequantised(512, 8, 512, 0, 255)
    assert find_coding(weight) == Coding(8, 256, True)
    np.testing.assert_array_equal(decoded(weight, Coding(8, 256, True)), weight)


def test_what_a_coding_says() -> None:
    assert str(Coding(4, 32, True)) == "4 bits in blocks of 32, shifted"


@given(st.integers(0, 2**32 - 1), st.sampled_from([(4, -15, 0), (4, -3, 12), (4, 2, 9), (8, -200, 55), (8, -9, 9)]))
@settings(max_examples=30, deadline=None)
def test_every_integer_may_be_missing(seed: int, kind: tuple[int, int, int]) -> None:
    """The scale is that of the smallest number by one that it may stand for, which needn't be 1."""
    bits, low, high = kind
    weight = dequantised(64, bits, 16, low, high, seed, columns=4)
    np.testing.assert_array_equal(decoded(weight, Coding(bits, 16, True)), weight)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda w: np.nextafter(w, np.float32(1)), id="another last bit"),
        pytest.param(lambda w: w.astype("f2"), id="half precision"),
        pytest.param(lambda w: np.where(np.arange(w.size).reshape(w.shape) == 77, np.float32(np.nan), w), id="NaN"),
        pytest.param(
            lambda w: np.where(np.arange(w.size).reshape(w.shape) == 77, np.float32(np.inf), w), id="infinity"
        ),
        pytest.param(lambda w: w[:, : COLUMNS // 2], id="too small to repay decoding"),
        pytest.param(lambda w: w[:-8], id="a block cut short"),
        pytest.param(lambda w: np.random.default_rng(0).standard_normal(w.shape).astype("f4"), id="never quantised"),
        pytest.param(lambda w: w * np.random.default_rng(0).random(w.shape, "f4"), id="scaled one by one"),
    ],
)
def test_another_weight_has_no_coding(spoil: Any) -> None:
    assert find_coding(spoil(dequantised(512, 4, 32, -8, 7))) is None


def test_one_number_out_of_place_is_found_though_columns_before_it_fit() -> None:
    weight = dequantised(512, 4, 32, -8, 7)
    weight[300, COLUMNS - 1] = np.float32(0.0123)
    assert find_coding(weight) is None


def test_a_column_of_zeros_has_a_coding() -> None:
    weight = dequantised(512, 4, 32, -8, 7)
    weight[:, 3] = 0
    coding = find_coding(weight)
    assert coding == Coding(4, 32, False)
    np.testing.assert_array_equal(decoded(weight, coding), weight)
