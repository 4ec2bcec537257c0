"""A whole model as onnxruntime.quantization writes it: all of it fuses, products are of bytes, numbers agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

import redfuser
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.codegen.cpu.build import able

MODEL = Path(__file__).parents[1] / "models" / "tiny_bert.onnx"
Feeds = dict[str, np.ndarray]


def random_feeds(seed: int) -> Feeds:
    ids = np.random.default_rng(seed).integers(0, 32, (1, 32))
    return {"input_ids": ids, "attention_mask": (np.arange(32) < 32 - 3 * seed).astype(np.int64)[None]}


class Calibration:
    """A few random inputs, one at a call."""

    def __init__(self) -> None:
        self.left: Iterator[Feeds] = map(random_feeds, range(4))

    def get_next(self) -> Feeds | None:
        return next(self.left, None)


def dynamically(path: Path) -> None:
    quantize_dynamic(MODEL, path, weight_type=QuantType.QInt8)


def statically(form: QuantFormat, by_channel: bool) -> Callable[[Path], None]:
    def quantise(path: Path) -> None:
        kinds = {"weight_type": QuantType.QInt8, "activation_type": QuantType.QUInt8}
        quantize_static(MODEL, path, Calibration(), quant_format=form, per_channel=by_channel, **kinds)

    return quantise


@pytest.mark.slow
@pytest.mark.parametrize(
    ("quantise", "kinds"),
    [
        (dynamically, {"attention": 2, "norm": 5, "quant": 8}),
        (statically(QuantFormat.QDQ, False), {"attention": 2, "norm": 5}),
        (statically(QuantFormat.QDQ, True), {"attention": 2, "norm": 5}),
        (statically(QuantFormat.QOperator, False), {"attention": 2, "norm": 5}),
    ],
)
def test_a_quantised_model(quantise: Callable[[Path], None], kinds: dict[str, int], tmp_path: Path) -> None:
    path, feeds = tmp_path / "model.onnx", random_feeds(9)
    quantise(path)
    artifact = redfuser.compile(path, output=tmp_path / "out", strict=True)
    found = [cascade.kind for cascade in artifact.report.cascades]
    assert {kind: found.count(kind) for kind in kinds} == kinds and artifact.report.fused == len(found)
    (got,) = redfuser.load(tmp_path / "out")(feeds).values()
    proto = onnx.load(path)
    (exact,), (peer,) = (run(proto, feeds).values() for run in (run_float64, lambda *a: run_onnxruntime(*a, 1)))
    # Roundings fall otherwise here and there; a step that falls one way everywhere is far more than that.
    error, others = (np.sqrt(np.mean((value - exact) ** 2)) for value in (got, peer))
    assert error <= 2 * others + 0.005 * np.sqrt(np.mean(exact**2))


def network() -> onnx.ModelProto:
    """Convolutions as image networks have them: strided, of each channel by itself, of one element, a sum of two."""
    rng = np.random.default_rng(0)
    weights = {
        "w0": rng.normal(size=(32, 3, 3, 3)) * 0.3,
        "w1": rng.normal(size=(32, 1, 3, 3)) * 0.4,
        "w2": rng.normal(size=(32, 32, 1, 1)) * 0.2,
        "w3": rng.normal(size=(48, 32, 3, 3)) * 0.1,
    }
    biases = {f"b{place}": rng.normal(size=len(w)) for place, w in enumerate(weights.values())}
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], strides=[2, 2], **window),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1", "b1"], ["c1"], group=32, **window),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"], kernel_shape=[1, 1]),
        helper.make_node("Add", ["c2", "r0"], ["s"]),
        helper.make_node("Conv", ["s", "w3", "b3"], ["c3"], strides=[2, 2], **window),
        helper.make_node("Relu", ["c3"], ["r3"]),
        helper.make_node("GlobalAveragePool", ["r3"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in {**weights, **biases}.items()]
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (1, 3, 30, 26)), ("y", (1, 48, 1, 1)))
    ]
    graph = helper.make_graph(nodes, "network", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


class Images:
    """A few random images, one at a call."""

    def __init__(self) -> None:
        self.left = (self.of(seed) for seed in range(4))

    @staticmethod
    def of(seed: int) -> Feeds:
        return {"x": np.random.default_rng(seed).normal(size=(1, 3, 30, 26)).astype(np.float32)}

    def get_next(self) -> Feeds | None:
        return next(self.left, None)


@pytest.mark.parametrize("name", ["cpu", "cpu-avx512", "cpu-avx2"])
@pytest.mark.parametrize("signed", [False, True])
def test_a_quantised_image_network(signed: bool, name: str, tmp_path: Path) -> None:
    """The result is a step off at most, and only where a value lies about half-way."""
    path, feeds = tmp_path / "model.onnx", Images.of(9)
    kinds = {"weight_type": QuantType.QInt8, "activation_type": QuantType.QInt8 if signed else QuantType.QUInt8}
    quantize_static(network(), path, Images(), quant_format=QuantFormat.QDQ, per_channel=True, **kinds)
    artifact = redfuser.compile(path, target=able(name), output=tmp_path / "out")
    proto = onnx.load(path)
    got, exact, peer = (
        redfuser.load(artifact.path)(feeds)["y"],
        run_float64(proto, feeds)["y"],
        run_onnxruntime(proto, feeds, 1)["y"],
    )
    (scale,) = (numpy_helper.to_array(t) for t in proto.graph.initializer if t.name == "y_scale")
    assert np.abs(got - exact).max() <= scale * 1.001 and np.abs(got - peer).max() <= scale * 1.001
    assert np.mean(np.abs(got - exact) > scale / 2) < 0.1
