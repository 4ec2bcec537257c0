"""QLinearConv and ConvInteger, whose results are bytes and their sums."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto

from redfuser.frontend import lower
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.byte_graphs import KERNELS, W, X, normalised, quantised_again, some
from tests.frontend.normalising.graphs import node
from tests.frontend.running import graph_of, loaded, run


def check_exactly(proto: ModelProto, x: np.ndarray) -> None:
    """The very bytes of ONNX Runtime, and those of float64 but for quotients beside a half."""
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])
    exact = run_float64(proto, {"x": x})["y"]
    assert got.dtype == exact.dtype
    steps = np.abs(got.astype(int) - exact.astype(int))
    assert steps.max(initial=0) <= 1 and steps.mean() < 1e-3


@pytest.mark.parametrize(
    ("kinds", "several", "attributes"),
    [
        ((np.uint8, np.int8), True, {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ((np.uint8, np.uint8), False, {"auto_pad": "SAME_UPPER"}),
        ((np.uint8, np.uint8), True, {}),
        ((np.int8, np.int8), False, {"dilations": [2, 2], "pads": [2] * 4}),
    ],
)
def test_quantised_again(attributes: Mapping[str, object], several: bool, kinds: tuple[type, type]) -> None:
    x, w = some(2, 5, 9, 8, kind=kinds[0]), some(KERNELS, 5, 3, 3, kind=kinds[1])
    proto = quantised_again(x, w, several, **attributes)
    found = normalised(proto)
    assert "MatMulInteger" in found and "Conv" not in found
    check_exactly(proto, x)


@pytest.mark.parametrize("bias", [True, False])
def test_each_channel_by_itself_quantised_again(bias: bool) -> None:
    x, w = some(2, KERNELS, 9, 8, kind=np.uint8), some(KERNELS, 1, 3, 3)
    proto = quantised_again(x, w, bias=bias, group=KERNELS, pads=[1, 1, 1, 1])
    found = normalised(proto)  # weights less their zero point are no bytes
    assert "Conv" not in found and found.count("Mul") == 10
    check_exactly(proto, x)


@pytest.mark.parametrize(("image", "kernel"), [((9, 8), (3, 3)), ((9, 8), (1, 3)), ((11,), (3,))])
def test_bytes_of_each_channel_by_itself(image: tuple[int, ...], kernel: tuple[int, ...]) -> None:
    x, w = some(2, KERNELS, *image, kind=np.uint8), some(KERNELS, 1, *kernel, kind=np.uint8)
    proto = quantised_again(x, w, several=False, group=KERNELS, pads=[1, 1] * len(image))
    assert "ReduceSum" in normalised(proto)
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])


def test_along_one_axis_quantised_again() -> None:
    x, w = some(2, 5, 11, kind=np.uint8), some(KERNELS, 5, 3)
    proto = quantised_again(x, w, pads=[1, 1])  # of which ONNX's reference implementation takes two axes at least
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])


@pytest.mark.parametrize(
    "proto",
    [
        quantised_again(some(2, 5, 9, 8, kind=np.uint8), W[:8]),  # too few kernels
        quantised_again(some(1, 10, 9, 8, kind=np.uint8), W, group=2),
    ],
)
def test_what_is_quantised_again_from_floating_point(proto: ModelProto) -> None:
    found = normalised(proto)
    assert "Conv" in found and "QLinearConv" not in found and "MatMulInteger" not in found


@pytest.mark.parametrize("zeros", [("", ""), ("zx", ""), ("zx", "zw")])
@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_sums_of_bytes(kind: type, zeros: tuple[str, str]) -> None:
    w = some(KERNELS, 5, 3, 3, kind=kind)
    names = ["x", "w", *zeros]
    while not names[-1]:
        names.pop()
    one = node("ConvInteger", names, "y", "conv", pads=[1, 1, 0, 1], strides=[2, 1])
    constants = {"w": w, "zx": np.uint8(17), "zw": kind(3)}
    proto = graph_of([one], {"x": X}, ["y"], {n: np.asarray(v) for n, v in constants.items() if n in names})
    assert "MatMulInteger" in normalised(proto)
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": X})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": X}, 1)["y"])
