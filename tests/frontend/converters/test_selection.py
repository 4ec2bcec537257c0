"""TopK, ArgMax, ArgMin and Hardmax: ties, infinities and NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.frontend.converters.checking import RNG, check, normal
from tests.frontend.running import lower_and_run, single

NAN, INF = math.nan, math.inf

TIES = np.array([[1, 3, 3, 0, 0], [np.nan, 2, np.nan, 9, -1], [-np.inf, -np.inf, 5, 5, -np.inf]], np.float32)


def test_top_k_ties_infinities_and_nan() -> None:
    x = np.array([[1, 3, 3, -INF, NAN, 3], [-INF, -INF, -INF, -INF, -INF, -INF], [0, -0.0, 0, 1, NAN, NAN]], np.float32)
    values, indices = lower_and_run(single("TopK", {"x": x}, {"k": np.array([4])}, outputs=2), {"x": x})
    assert indices.tolist() == [[4, 1, 2, 5], [0, 1, 2, 3], [4, 5, 3, 0]] and indices.dtype == np.int64
    assert np.array_equal(values, np.take_along_axis(x, indices, 1), equal_nan=True)


@pytest.mark.parametrize("attributes", [{"axis": 0}, {"axis": 1, "largest": 0}, {"axis": 2}])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_top_k_along_any_axis(attributes: dict[str, int], dtype: type) -> None:
    x = RNG.integers(0, 9, (3, 4, 5)).astype(dtype)
    check(single("TopK", {"x": x}, {"k": np.array([2])}, outputs=2, **attributes), {"x": x})


def test_top_k_unsorted_is_sorted_too() -> None:
    x = normal(3, 6)
    sorted_, unsorted = (single("TopK", {"x": x}, {"k": np.array([3])}, outputs=2, sorted=flag) for flag in (1, 0))
    assert np.array_equal(lower_and_run(sorted_, {"x": x})[1], lower_and_run(unsorted, {"x": x})[1])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("value", [-np.inf, np.inf, 0.0])
def test_hardmax_of_equal_elements_is_the_first(value: float, axis: int) -> None:
    x = np.full((3, 4), value, np.float32)
    (got,) = lower_and_run(single("Hardmax", {"x": x}, axis=axis), {"x": x})
    assert got.dtype == np.float32 and (got.argmax(axis) == 0).all() and (got.sum(axis) == 1).all()


def test_hardmax_is_where_the_largest_element_is() -> None:
    (got,) = lower_and_run(single("Hardmax", {"x": TIES}), {"x": TIES})
    assert got.argmax(1).tolist() == [1, 0, 2] and (got.sum(1) == 1).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_arg_extrema_with_ties(operator: str, last: int, axis: int) -> None:
    x = np.round(normal(4, 7) * 1.5)
    for keep in (0, 1):
        check(single(operator, {"x": x}, axis=axis, keepdims=keep, select_last_index=last), {"x": x})


def test_arg_extrema_count_nan_as_largest() -> None:
    (first,) = lower_and_run(single("ArgMax", {"x": TIES}, axis=1), {"x": TIES})
    (last,) = lower_and_run(single("ArgMax", {"x": TIES}, axis=1, select_last_index=1), {"x": TIES})
    (least,) = lower_and_run(single("ArgMin", {"x": TIES}, axis=1), {"x": TIES})
    assert first.dtype == np.int64
    assert first.ravel().tolist() == [1, 0, 2] and last.ravel().tolist() == [2, 2, 3]
    assert least.ravel().tolist() == [3, 4, 0]


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int64, np.uint8])
def test_arg_max_of_any_type(dtype: type) -> None:
    x = np.arange(12).reshape(3, 4)[::-1].astype(dtype)
    (found,) = lower_and_run(single("ArgMax", {"x": x}, axis=0), {"x": x})
    assert found.ravel().tolist() == [0, 0, 0, 0]
