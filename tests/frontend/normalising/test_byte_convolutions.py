"""Convolutions between DequantizeLinear nodes: of bytes where they can be, untouched elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, numpy_helper

from redfuser.frontend import lower
from redfuser.frontend.normalising.normalise import normalise as use_up
from redfuser.oracle.run import run_float64
from tests.frontend.normalising.byte_graphs import (
    BY_KERNEL,
    KERNELS,
    RNG,
    SYMMETRIC,
    WHOLE,
    W,
    X,
    model,
    normalised,
    some,
)
from tests.frontend.normalising.graphs import node, operators
from tests.frontend.running import graph_of, loaded, run


def check(proto: ModelProto, x: np.ndarray) -> None:
    """Nearer to float64 than float32 would be as written: sums are exact."""
    (got,) = run(lower(loaded(proto), convolves_bytes=True), {"x": x})
    np.testing.assert_allclose(got, run_float64(proto, {"x": x})["y"], rtol=5e-7, atol=2e-6)


@pytest.mark.parametrize("constants", [WHOLE, BY_KERNEL, SYMMETRIC, {**WHOLE, "zx": np.uint8(0)}])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"pads": [1, 1, 1, 1]},
        {"pads": [0, 2, 1, 1], "strides": [2, 3]},
        {"dilations": [2, 2], "pads": [2, 1, 2, 3]},
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"auto_pad": "VALID"},
    ],
)
def test_a_convolution(attributes: Mapping[str, object], constants: Mapping[str, Any]) -> None:
    proto = model(X, W, constants, **attributes)
    found = normalised(proto)
    assert "MatMulInteger" in found and "Conv" not in found
    check(proto, X)


@pytest.mark.parametrize("kinds", [(np.int8, np.int8), (np.int8, np.uint8), (np.uint8, np.uint8)])
def test_signs(kinds: tuple[type, type]) -> None:
    x, w = some(2, 5, 9, 8, kind=kinds[0]), some(KERNELS, 5, 3, 3, kind=kinds[1])
    check(model(x, w, {"zx": kinds[0](7), "sw": np.float32(0.0307), "zw": kinds[1](5)}, pads=[1, 1, 1, 1]), x)


AXES = [((11,), (3,)), ((5, 6, 7), (2, 1, 3)), ((6, 5), (1, 1)), ((6, 5), (1, 3))]


@pytest.mark.parametrize(("image", "kernel"), AXES)
@pytest.mark.parametrize("stride", [1, 2])
def test_axes(image: tuple[int, ...], kernel: tuple[int, ...], stride: int) -> None:
    x, w = some(2, 5, *image, kind=np.uint8), some(KERNELS, 5, *kernel)
    proto = model(x, w, strides=[stride] * len(image))
    assert "MatMulInteger" in normalised(proto)
    check(proto, x)


def test_a_batch_of_open_size() -> None:
    proto = model((TensorProto.UINT8, ("n", *X.shape[1:])), W, pads=[1, 1, 1, 1])
    lowered = lower(loaded(proto), convolves_bytes=True)
    for size in (1, 2):
        (got,) = run(lowered, {"x": X[:size]})
        np.testing.assert_allclose(got, run_float64(proto, {"x": X[:size]})["y"], rtol=5e-7, atol=2e-6)


@pytest.mark.parametrize("constants", [WHOLE, BY_KERNEL, {**SYMMETRIC, "zx": np.uint8(0)}])
@pytest.mark.parametrize("attributes", [{"pads": [1, 1, 1, 1]}, {"strides": [2, 2], "pads": [1, 0, 0, 1]}])
def test_each_channel_by_itself(attributes: Mapping[str, object], constants: Mapping[str, Any]) -> None:
    x, w = some(2, KERNELS, 9, 8, kind=np.uint8), some(KERNELS, 1, 3, 3)
    proto = model(x, w, constants, group=KERNELS, **attributes)
    found = normalised(proto)
    assert "Conv" not in found and ("ReduceSum" in found) == (constants["zw"] is SYMMETRIC["zw"])
    check(proto, x)


OPEN = (TensorProto.UINT8, (2, 5, "h", 8))
NO_ZERO = ("x", "sx")


@pytest.mark.parametrize(
    "proto",
    [
        model(OPEN, W),  # no table of patches
        model(X, W[:8]),  # too few kernels
        model(X, W, {**WHOLE, "sw": np.full(5, 0.0307, np.float32), "zw": np.zeros(5, np.int8)}, axis=1),  # by channel
        model(X, W, image=NO_ZERO),  # bytes of a type that nothing says
        model(some(1, 4000, 3, 3, kind=np.uint8), some(16, 4000, 3, 3)),  # sums that int32 doesn't hold
        model(some(1, 10, 9, 8, kind=np.uint8), W, group=2),
        model(some(1, KERNELS, 20, 20, kind=np.uint8), some(KERNELS, 1, 7, 7), group=KERNELS),  # too long
    ],
)
def test_what_stays_a_convolution(proto: ModelProto) -> None:
    found = normalised(proto)
    assert "Conv" in found and "MatMulInteger" not in found


def test_targets_without_products_of_bytes_keep_it() -> None:
    assert "Conv" in operators(use_up(model(X, W)))


@pytest.mark.parametrize(
    "cut", [("Relu", []), ("Clip", ["low", "high"]), ("Clip", ["", "high"]), ("Clip", ["low"]), None]
)
@pytest.mark.parametrize("bias", ["b", "real"])
def test_between_dequantising_and_quantising(cut: tuple[str, list[str]] | None, bias: str) -> None:
    """A bias in units of both scales is added to the sums, any other to their multiples."""
    units = np.float32(0.02) * np.float32(0.0307)
    proto = model(X, W, {**WHOLE, "sb": units if bias == "b" else np.float32(3 * units)}, pads=[1, 1, 1, 1])
    graph = proto.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    constants |= {"low": np.float32(-9.3), "high": np.float32(40.2), "real": RNG.random(KERNELS).astype(np.float32)}
    nodes = list(graph.node)
    nodes[-1].output[0] = "middle"
    nodes[-1].input[2] = "real_b" if bias == "b" else "real"
    if cut:
        nodes.append(node(cut[0], ["middle", *cut[1]], "cut"))
    nodes.append(node("QuantizeLinear", ["cut" if cut else "middle", "sy", "zy"], "y"))
    whole = graph_of(nodes, {"x": X}, ["y"], {name: np.asarray(value) for name, value in constants.items()})
    found = normalised(whole)
    assert "MatMulInteger" in found and found.count("Mul") == 1
    (got,) = run(lower(loaded(whole), convolves_bytes=True), {"x": X})
    steps = np.abs(got.astype(int) - run_float64(whole, {"x": X})["y"].astype(int))
    assert steps.max() <= 1 and steps.mean() < 1e-3
