"""The largest byte of a window."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto, helper

from redfuser.frontend import lower
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.byte_graphs import (
    CHANNELS,
    normalised,
    some,
)
from tests.frontend.normalising.graphs import node
from tests.frontend.running import graph_of, loaded, run


def pool(x: np.ndarray, scale: float = 0.02, indices: bool = False, **attributes: object) -> ModelProto:
    zero = x.dtype.type(7)
    nodes = [
        node("DequantizeLinear", ["x", "sx", "zx"], "real_x"),
        helper.make_node("MaxPool", ["real_x"], ["y", "i"] if indices else ["y"], name="pool", **attributes),
    ]
    return graph_of(nodes, {"x": x}, ["y", "i"] if indices else ["y"], {"sx": np.float32(scale), "zx": zero})


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]},
        {"kernel_shape": [2, 3], "dilations": [2, 1]},
        {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
    ],
)
def test_the_largest_of_a_window(attributes: Mapping[str, object], kind: type) -> None:
    x = some(2, CHANNELS, 9, 7, kind=kind)
    proto = pool(x, **attributes)
    found = normalised(proto)
    assert "Max" in found and "MaxPool" not in found
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_allclose(got, run_float64(proto, {"x": x})["y"], rtol=1e-6)


@pytest.mark.parametrize(
    "proto",
    [
        pool(some(2, CHANNELS, 9, 7), indices=True, kernel_shape=[3, 3]),
        pool(some(2, CHANNELS, 9, 7), scale=-0.02, kernel_shape=[3, 3]),  # of which the largest is the least byte
        pool(some(2, 3, 9, 7), kernel_shape=[3, 3]),  # few channels
        pool(some(2, CHANNELS, 9, 7), kernel_shape=[6, 6]),  # too long to be written out
    ],
)
def test_what_stays_a_pool(proto: ModelProto) -> None:
    assert "MaxPool" in normalised(proto)


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_the_largest_of_a_window_of_bytes(kind: type) -> None:
    x = some(2, CHANNELS, 9, 7, kind=kind)
    one = node("MaxPool", ["x"], "y", "pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    proto = graph_of([one], {"x": x}, ["y"], {})
    assert "Max" in normalised(proto)
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])
