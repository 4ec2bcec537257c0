"""Reductions: infinities, no axes, integers, wide sums of halves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from onnx import TensorProto, helper

from redfuser.frontend import lower
from redfuser.oracle.run import run_float64
from tests.frontend.converters.checking import RNG, check, normal
from tests.frontend.running import graph_of, loaded, lower_and_run, single

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("operator", ["MatMul", "ReduceSum", "ReduceMean", "Softmax"])
def test_half_precision_accumulates_wide(operator: str) -> None:
    x = np.full((1, 4096), 1.001, np.float16)
    inputs = {"x": x, "w": np.ones((4096, 1), np.float16)} if operator == "MatMul" else {"x": x}
    got = lower_and_run(single(operator, inputs), inputs)[0]
    exact = run_float64(single(operator, inputs), inputs)["y0"]
    assert np.allclose(got, exact.astype(np.float16), rtol=1e-3)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sums(exclusive: int, reverse: int) -> None:
    x = RNG.integers(-9, 9, (2, 5, 3))
    check(single("CumSum", {"x": x}, {"axis": np.array(1)}, exclusive=exclusive, reverse=reverse), {"x": x})


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
def test_extrema_of_infinities(operator: str) -> None:
    x = np.array([[-INF, -INF], [INF, INF], [1, -2]], np.float32)
    proto = single(operator, {"x": x}, {"axes": np.array([1])})
    check(proto, {"x": x})
    assert len(lower(loaded(proto)).provenance) == 1


def test_extrema_without_axes() -> None:
    x = normal(2, 3)
    check(single("ReduceMax", {"x": x}, keepdims=0), {"x": x})
    check(single("ReduceMax", {"x": x}, noop_with_empty_axes=1), {"x": x})
    check(single("ReduceMax", {"x": x}, opset=17, axes=[1]), {"x": x})
    flags = x > 0
    check(single("ReduceMin", {"x": flags}, opset=20), {"x": flags})


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_means_of_integers(dtype: type) -> None:
    x = np.array([[1, 2, 4], [7, 8, 9]], dtype)
    check(single("ReduceMean", {"x": x}, {"axes": np.array([1])}), {"x": x})


def test_means_of_integers_over_an_open_axis() -> None:
    node = helper.make_node("ReduceMean", ["x", "axes"], ["y"], name="node")
    proto = graph_of([node], {"x": (TensorProto.INT32, ["n", 3])}, ["y"], {"axes": np.array([0])})
    x = RNG.integers(-99, 99, (7, 3), np.int32)
    np.testing.assert_array_equal(lower_and_run(proto, {"x": x})[0], np.trunc(x.mean(0, keepdims=True)))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
@pytest.mark.parametrize(
    ("operator", "exact"),
    [
        ("ReduceL2", lambda x: np.sqrt((x**2).sum(1, keepdims=True))),
        ("ReduceLogSum", lambda x: np.log(x.sum(1, keepdims=True))),
        ("ReduceLogSumExp", lambda x: np.log(np.exp(x).sum(1, keepdims=True))),
    ],
)
def test_roots_and_logarithms_of_integers_round_towards_zero(
    operator: str, exact: Callable[[np.ndarray], np.ndarray], dtype: type
) -> None:
    x = np.array([[3, 4, 5, 7], [1, 2, 9, 11], [2, 2, 2, 1], [0, 60, 0, 63]], dtype)
    if np.issubdtype(dtype, np.signedinteger) and operator != "ReduceLogSum":
        x[:, 0] *= -1
    (got,) = lower_and_run(single(operator, {"x": x}, {"axes": np.array([1])}), {"x": x})
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.trunc(exact(x.astype(np.float64))))


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    "operator", [f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "SumSquare", "Sum")]
)
def test_reductions_over_no_axes_still_map_each_element(operator: str, given: bool) -> None:
    x = np.array([[1.5, -2, 0.25]], np.float32)
    axes = {"axes": np.array([], np.int64)} if given else None
    check(single(operator, {"x": x}, axes, noop_with_empty_axes=1), {"x": x})
    check(single(operator, {"x": x}, axes, noop_with_empty_axes=0), {"x": x})


def test_log_sum_exp_of_infinities() -> None:
    x = np.array([[-INF, -INF, -INF], [INF, 0, 1], [100, 200, 300]], np.float32)
    check(single("ReduceLogSumExp", {"x": x}, {"axes": np.array([1])}, keepdims=0), {"x": x})


@pytest.mark.parametrize("rows", [3, 300_000])  # folded, and computed by a kernel
@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        *(("ReduceSum", 0), ("ReduceL1", 0), ("ReduceL2", 0), ("ReduceSumSquare", 0), ("ReduceProd", 1)),
        *(("ReduceMax", -INF), ("ReduceMin", INF), ("ReduceLogSum", -INF), ("ReduceLogSumExp", -INF)),
        ("ReduceMean", NAN),
    ],
)
def test_reductions_of_nothing(operator: str, expected: float, rows: int) -> None:
    """What ONNX says of an empty set; of the mean it says nothing."""
    x = np.zeros((rows, 0), np.float32)
    proto = single(operator, {"x": x}, {"axes": np.array([1])}, opset=20)
    got = lower_and_run(proto, {"x": x})[0]
    assert np.array_equal(got, np.full((rows, 1), expected, np.float32), equal_nan=True)
    assert np.array_equal(run_float64(proto, {"x": x})["y0"], got, equal_nan=True)


@pytest.mark.parametrize(
    ("operator", "expected"), [("ReduceMax", -(2**31)), ("ReduceMin", 2**31 - 1), ("ReduceMean", 0)]
)
def test_reductions_of_no_integers(operator: str, expected: int) -> None:
    x = np.zeros((300_000, 0), np.int32)
    got = lower_and_run(single(operator, {"x": x}, {"axes": np.array([1])}, opset=20), {"x": x})[0]
    assert np.array_equal(got, np.full((300_000, 1), expected))


def test_products_over_nothing() -> None:
    feeds = {"x": np.zeros((300, 0), np.float32), "w": np.zeros((0, 5), np.float32), "c": normal(300, 5)}
    assert np.array_equal(lower_and_run(single("Gemm", feeds), feeds)[0], feeds["c"])


def test_an_empty_axis_that_is_not_reduced() -> None:
    x = np.zeros((0, 4), np.float32)
    assert lower_and_run(single("ReduceSum", {"x": x}, {"axes": np.array([1])}), {"x": x})[0].shape == (0, 1)
