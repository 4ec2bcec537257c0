"""Convolutions of bytes, with every form of zero points, against ONNX Runtime and the reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto, helper

from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.graphs import normalise
from tests.frontend.running import graph_of, lower_and_run

WINDOW = {"pads": [1, 0, 1, 1], "strides": [2, 1]}
KINDS = [np.uint8, np.int8]


def random_bytes(*shape: int, kind: type = np.uint8, seed: int = 0) -> np.ndarray:
    """Every value of the type, its ends too."""
    bounds = np.iinfo(kind)
    return np.asarray(np.random.default_rng(seed).integers(bounds.min, bounds.max + 1, shape), kind)


def convolution(
    operator: str, inputs: Mapping[str, np.ndarray | None], **attributes: object
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and what to feed it; inputs that are None are left out."""
    feeds = {name: value for name, value in inputs.items() if value is not None}
    names = [name if name in feeds else "" for name in inputs]
    while not names[-1]:
        names.pop()
    node = helper.make_node(operator, names, ["y"], name="node", **attributes)
    return graph_of([node], feeds, ["y"], opset=17), feeds


@pytest.mark.parametrize("kinds", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.uint8), (np.int8, np.int8)])
@pytest.mark.parametrize("zeros", [(None, None), ((), ()), ((1,), (1,)), (None, ()), ((), None), ((), (6,))])
def test_sums_of_integers(
    zeros: tuple[tuple[int, ...] | None, tuple[int, ...] | None], kinds: tuple[type, type]
) -> None:
    x, w = random_bytes(2, 4, 9, 7, kind=kinds[0]), random_bytes(6, 4, 3, 3, kind=kinds[1], seed=1)
    points = [None if z is None else random_bytes(*z, kind=kind, seed=2) for z, kind in zip(zeros, kinds, strict=True)]
    proto, feeds = convolution("ConvInteger", {"x": x, "w": w, "x_zero": points[0], "w_zero": points[1]}, **WINDOW)
    (got,) = lower_and_run(proto, feeds)
    if zeros[1] == (6,):  # ONNX Runtime takes one alone: the exact sums of each kernel by itself
        exact = np.concatenate([_of_one_kernel(feeds, k) for k in range(6)], 1)
    else:
        exact = run_onnxruntime(proto, feeds, 1)["y"]
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, exact)


def _of_one_kernel(feeds: Mapping[str, np.ndarray], kernel: int) -> np.ndarray:
    part = {"w": feeds["w"][kernel : kernel + 1], "w_zero": feeds["w_zero"][kernel : kernel + 1]}
    proto, own = convolution("ConvInteger", {**feeds, **part}, **WINDOW)
    return run_onnxruntime(proto, own, 1)["y"]


def test_long_sums_are_exact_in_float64() -> None:
    """600 products of 255 · 255: float32 holds no odd number that large."""
    x, w = np.full((1, 600, 2, 2), 255, np.uint8), np.full((3, 600, 1, 1), 255, np.uint8)
    w[0, 0] = 254
    w[1, 0] = 1
    proto, feeds = convolution("ConvInteger", {"x": x, "w": w})
    (got,) = lower_and_run(proto, feeds)
    total = 600 * 255 * 255
    np.testing.assert_array_equal(got[0, :, 0, 0], [total - 255, total - 254 * 255, total])
    np.testing.assert_array_equal(got, run_onnxruntime(proto, feeds, 1)["y"])


@pytest.mark.parametrize("kinds", [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8)])
@pytest.mark.parametrize(("single", "several"), [((), ()), ((1,), (1,)), ((), (6,))])
@pytest.mark.parametrize("group", [1, 2])
def test_quantised_again(
    single: tuple[int, ...], several: tuple[int, ...], group: int, kinds: tuple[type, type]
) -> None:
    own, other = kinds
    inputs = {
        "x": random_bytes(2, 4, 9, 7, kind=own),
        "x_scale": np.full(single, 0.0213, np.float32),
        "x_zero": random_bytes(*single, kind=own, seed=3),
        "w": random_bytes(6, 4 // group, 3, 3, kind=other, seed=1),
        "w_scale": np.linspace(0.02, 0.04, 6, dtype=np.float32) if several == (6,) else np.full(several, 0.03, "f4"),
        "w_zero": random_bytes(*several, kind=other, seed=4),
        "y_scale": np.asarray(1.117, np.float32),
        "y_zero": random_bytes(kind=own, seed=5),
    }
    if several == (6,):
        inputs["w_zero"][:] = inputs["w_zero"][0]  # ONNX Runtime takes several that are equal
    for bias in (None, np.arange(-3, 3, dtype=np.int32) * 30_000):
        proto, feeds = convolution("QLinearConv", {**inputs, "b": bias}, group=group, **WINDOW)
        (got,) = lower_and_run(proto, feeds)
        for exact in (run_onnxruntime(proto, feeds, 1)["y"], run_float64(proto, feeds)["y"]):
            assert got.dtype == exact.dtype and got.shape == exact.shape
            steps = np.abs(got.astype(int) - exact.astype(int))
            assert steps.max() <= 1 and steps.mean() < 0.01


def test_constant_weights_are_widened_once() -> None:
    w = random_bytes(6, 4, 3, 3, seed=1)
    node = helper.make_node("ConvInteger", ["x", "w", "", "z"], ["y"], name="node")
    constants = {"w": w, "z": np.asarray(3, np.uint8)}
    folded = normalise(graph_of([node], {"x": random_bytes(1, 4, 9, 7)}, ["y"], constants, opset=17)).graph
    assert [node.op_type for node in folded.node] == ["Cast", "Conv", "Cast"]
