"""Operators on bytes of com.microsoft, as onnxruntime.quantization writes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from redfuser.frontend import lower
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.contributed.checking import contributed, fused, refused
from tests.frontend.running import graph_of, loaded, run

KINDS = [np.uint8, np.int8]
Arrays = dict[str, np.ndarray]


def random_bytes(*shape: int, kind: type = np.uint8, seed: int = 0) -> np.ndarray:
    """Every value of the type, its ends too."""
    bounds = np.iinfo(kind)
    return np.asarray(np.random.default_rng(seed).integers(bounds.min, bounds.max + 1, shape), kind)


def quantised(name: str, shape: tuple[int, ...], scale: float, zero: int | None, kind: type) -> Arrays:
    """Bytes with their scale and zero point: a scalar, or a vector of one number, or none."""
    seed = sum(name.encode())
    own = {f"{name}_scale": np.asarray(scale, np.float32), f"{name}_zero": None}
    if zero is not None:
        own[f"{name}_zero"] = np.asarray(zero if kind is np.int8 else zero + 128, kind)
    return {name: random_bytes(*shape, kind=kind, seed=seed), **own}


def result(scale: float, zero: int | None, kind: type) -> Arrays:
    """Scale and zero point of the result."""
    return {name: value for name, value in quantised("y", (0,), scale, zero, kind).items() if name != "y"}


def within_a_step(proto: ModelProto, feeds: Mapping[str, np.ndarray], judge: np.ndarray | None = None) -> np.ndarray:
    """The definition in float64, which what is compiled and ONNX Runtime's kernel differ from by a step here and there.

    Args:
        judge: what should come out, where ONNX Runtime has no kernel.
    """
    exact = run_float64(proto, feeds)["y"]
    (compiled,) = run(lower(loaded(proto)), feeds)
    for value in (compiled, run_onnxruntime(proto, feeds, 1)["y"] if judge is None else judge):
        assert value.dtype == exact.dtype and value.shape == exact.shape
        steps = np.abs(value.astype(int) - exact.astype(int))
        assert steps.max() <= 1 and steps.mean() < 0.02
    return exact


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("zeros", [(-3, 5, 7), (0, None, 0), (None, None, None)])
@pytest.mark.parametrize("operator", ["QLinearAdd", "QLinearMul"])
def test_sums_and_products(operator: str, zeros: tuple[int | None, ...], kind: type) -> None:
    inputs = {
        **quantised("a", (2, 3, 8), 0.0317, zeros[0], kind),
        **quantised("b", (3, 1), 0.1129, zeros[1], kind),
        **result(0.0523 if operator == "QLinearAdd" else 0.217, zeros[2], kind),
    }
    # ONNX Runtime doesn't take those without a zero point that its schemas allow.
    said = {name: np.zeros((), kind) if value is None else value for name, value in inputs.items()}
    judge = run_onnxruntime(*contributed(operator, said, ["y"]), 1)["y"]
    exact = within_a_step(*contributed(operator, inputs, ["y"]), judge)
    assert {np.iinfo(kind).min, np.iinfo(kind).max} & set(exact.ravel().tolist())  # it saturates


@pytest.mark.parametrize(
    ("operator", "a", "b", "y"),
    [
        ("QLinearAdd", (np.float32(2 / 255), 128), (np.float32(1 / 255), 0), (np.float32(2 / 255), 0)),  # 1 + erf
        ("QLinearAdd", (np.float32(0.1), 3), (np.float32(0.05), 7), (np.float32(0.2), 9)),
        ("QLinearMul", (np.float32(0.3), 5), (np.float32(0.7), 9), (np.float32(0.3) * np.float32(0.7) * 16, 128)),
        ("QLinearMul", (np.float32(0.5), 5), (np.float32(0.25), 9), (np.float32(2), 77)),
    ],
)
def test_halves_of_a_step_are_rounded_as_onnx_runtime_does(
    operator: str, a: tuple[float, int], b: tuple[float, int], y: tuple[float, int]
) -> None:
    """Else all halves of a sum that is all halves may go one way, and what adds it up is far off."""
    inputs = {
        **quantised("a", (64, 64), a[0], a[1] - 128, np.uint8),
        **quantised("b", (64, 64), b[0], b[1] - 128, np.uint8),
        **result(y[0], y[1] - 128, np.uint8),
    }
    proto, feeds = contributed(operator, inputs, ["y"])
    np.testing.assert_array_equal(run(lower(loaded(proto)), feeds)[0], run_onnxruntime(proto, feeds, 1)["y"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("zero", "out"), [(4, -128), (0, None), (None, -100)])
@pytest.mark.parametrize(
    ("operator", "attributes"), [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.3}), ("QLinearLeakyRelu", {})]
)
def test_activations(operator: str, attributes: dict[str, object], zero: int, out: int | None, kind: type) -> None:
    scale = 1 / 256 if operator == "QLinearSigmoid" else 0.0411
    inputs = {**quantised("x", (3, 50), 0.0523, zero, kind), **result(scale, out, kind)}
    within_a_step(*contributed(operator, inputs, ["y"]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("opset", "axis", "shape"),
    [(13, -1, (4, 3, 16)), (13, 1, (4, 3, 16)), (12, None, (4, 3, 16)), (11, 2, (4, 3, 16)), (13, None, (5, 40))],
)
def test_softmax(opset: int, axis: int | None, shape: tuple[int, ...], kind: type) -> None:
    inputs = {**quantised("x", shape, 0.06, 9, kind), **result(1 / 256, -128, kind)}
    own = {} if axis is None else {"axis": axis}
    within_a_step(*contributed("QLinearSoftmax", inputs, ["y"], opset=opset, **own))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("last", [0, 1])
def test_pools(last: int, kind: type) -> None:
    inputs = {**quantised("x", (2, 6, 8, 6), 0.0317, 5, kind), **result(0.0213, -7, kind)}
    within_a_step(*contributed("QLinearGlobalAveragePool", inputs, ["y"], channels_last=last))
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1], "channels_last": last}
    for counted in (0, 1):
        within_a_step(*contributed("QLinearAveragePool", inputs, ["y"], **window, count_include_pad=counted))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [0, 1])
def test_means(kept: int, kind: type) -> None:
    """ONNX Runtime has a schema of it, but no kernel."""
    inputs = {**quantised("x", (2, 5, 4), 0.0317, 5, kind), **result(0.0213, -7, kind)}
    real = (inputs["x"].astype(float) - inputs["x_zero"]) * 0.0317
    rounded = np.rint(real.mean((1, 2), keepdims=bool(kept)) / 0.0213) + inputs["y_zero"]
    judge = np.clip(rounded, np.iinfo(kind).min, np.iinfo(kind).max).astype(kind)
    within_a_step(*contributed("QLinearReduceMean", inputs, ["y"], axes=[-1, 1], keepdims=kept), judge)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_put_together_and_chosen_from(kind: type) -> None:
    a, b = quantised("a", (2, 3, 4), 0.0317, 5, kind), quantised("b", (2, 3, 4), 0.0523, -9, kind)
    y = result(0.0411, 2, kind)
    within_a_step(*contributed("QLinearConcat", {**y, **a, **b}, ["y"], axis=-2))
    condition = {"c": random_bytes(3, 4) > 100}
    within_a_step(*contributed("QLinearWhere", {**condition, **a, **b, **y}, ["y"]))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    "attributes", [{}, {"transB": 1, "alpha": 0.5}, {"transA": 1}], ids=["plain", "transposed B", "transposed A"]
)
def test_products_with_a_bias(attributes: dict[str, object], columns: bool, kind: type) -> None:
    m, k, n = 4, 300, 6
    inputs = {
        **quantised("a", (k, m) if attributes.get("transA") else (m, k), 0.01, 5, np.uint8),
        **quantised("b", (n, k) if attributes.get("transB") else (k, n), 0.02, -9, kind),
        "c": np.arange(-3, 3, dtype=np.int32) * 50_000,
    }
    if columns:
        inputs |= {"b_scale": np.linspace(0.01, 0.03, n, dtype=np.float32), "b_zero": random_bytes(n, kind=kind)}
    within_a_step(*contributed("QGemm", {**inputs, **result(4.0, -9, np.uint8)}, ["y"], **attributes))
    for left_out in ("", "c"):
        real = {name: None if name == left_out else value for name, value in inputs.items()}
        proto, feeds = contributed("QGemm", real, ["y"], **attributes)
        (compiled,) = run(lower(loaded(proto)), feeds)
        for value in (run_float64(proto, feeds)["y"], compiled):
            np.testing.assert_allclose(value, run_onnxruntime(proto, feeds, 1)["y"], rtol=1e-5)


def test_several_scales_are_refused() -> None:
    x, y = quantised("x", (2, 3), 0.05, 0, np.uint8), result(0.05, 0, np.uint8)
    several = np.full(3, 0.1, np.float32)
    what = "several scales or zero points of one operand"
    refused(*contributed("QLinearSigmoid", {**x, **y, "x_scale": several}, ["y"]), what)
    refused(*contributed("QLinearSigmoid", {**x, **y, "y_scale": several}, ["y"]), what)
    refused(*contributed("QLinearSigmoid", {**x, **y}, ["y"], made_up=3), "the attribute made_up")


def test_sizes_may_stay_open() -> None:
    own = {"s": np.asarray(0.05, np.float32), "z": np.asarray(3, np.uint8), "q": np.asarray(1 / 256, np.float32)}
    nodes = [
        helper.make_node("QLinearAdd", ["x", "s", "z", "x", "s", "z", "s", "z"], ["sum"], domain="com.microsoft"),
        helper.make_node("QLinearSoftmax", ["sum", "s", "z", "q", "z"], ["y"], domain="com.microsoft", opset=13),
    ]
    shape = ["batch", 7]
    proto = graph_of(nodes, {"x": (TensorProto.UINT8, shape)}, ["y"], own, domains={"com.microsoft": 1})
    lowered = lower(loaded(proto))
    assert lowered.outputs[0].shape == ("batch", 7)
    x = random_bytes(5, 7)
    assert np.abs(run(lowered, {"x": x})[0].astype(int) - run_float64(proto, {"x": x})["y"].astype(int)).max() <= 1


def test_a_softmax_of_bytes_is_fused(tmp_path: Path) -> None:
    inputs = {**quantised("x", (64, 512), 0.06, 9, np.uint8), **result(1 / 256, -128, np.uint8)}
    proto, _ = contributed("QLinearSoftmax", inputs, ["y"], opset=13)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.UINT8
    assert fused(proto, tmp_path) == ["softmax"]
