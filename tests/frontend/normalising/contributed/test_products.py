"""Products of com.microsoft, with what was fused into them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, fused, normal, refused
from tests.frontend.running import graph_of

RNG = np.random.default_rng(0)
X, ROW = normal(2, 3, 8), normal(8)
SHORTS = RNG.integers(-99, 99, (2, 3, 4)).astype(np.int16)
IMAGE, KERNELS, SUM = normal(1, 2, 5, 5), normal(3, 2, 3, 3), normal(1, 3, 3, 3)
GEMM = {"a": normal(3, 4), "b": normal(4, 5)}


@pytest.mark.parametrize("flags", list(itertools.product((0, 1), repeat=4)))
def test_a_product_of_transposed_operands(flags: tuple[int, ...]) -> None:
    names = ["transA", "transB", "transBatchA", "transBatchB"]
    a, b = normal(2, 3, 4, 5), normal(2, 3, 5, 6)
    operands = [value.swapaxes(-1, -2) if flag else value for value, flag in zip((a, b), flags[:2], strict=True)]
    operands = [np.moveaxis(v, -2, 0) if flag else v for v, flag in zip(operands, flags[2:], strict=True)]
    inputs = dict(zip("ab", map(np.ascontiguousarray, operands), strict=True))
    proto, feeds = contributed("FusedMatMul", inputs, ["y"], alpha=0.5, **dict(zip(names, flags, strict=True)))
    exact = agree(proto, feeds)
    np.testing.assert_allclose(exact["y"], 0.5 * (a @ b), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"),
    [
        ("FusedMatMul", {"a": X, "b": normal(8, 4)}, {}),
        ("FusedMatMul", {"a": X, "b": ROW}, {"alpha": 2.0}),
        ("FusedGemm", GEMM, {"activation": "Sigmoid", "alpha": 0.5}),
        ("FusedGemm", {**GEMM, "c": normal(5)}, {"activation": "Relu", "beta": 2.0}),
        ("FusedGemm", {**GEMM, "c": normal(5)}, {"activation": "LeakyRelu", "activation_alpha": 0.3}),
        ("FusedGemm", {"a": GEMM["a"].T.copy(), "b": normal(5, 4)}, {"activation": "Tanh", "transA": 1, "transB": 1}),
        ("FusedConv", {"x": IMAGE, "w": KERNELS, "b": normal(3)}, {"activation": "Relu", "pads": [1, 1, 1, 1]}),
        ("FusedConv", {"x": IMAGE, "w": KERNELS}, {"activation": "Sigmoid", "strides": [2, 2]}),
        ("FusedConv", {"x": IMAGE, "w": KERNELS}, {"activation": "Clip", "activation_params": [-0.5, 0.5]}),
        ("FusedConv", {"x": IMAGE, "w": KERNELS}, {"activation": "HardSigmoid", "activation_params": [0.3, 0.6]}),
        ("FusedConv", {"x": IMAGE, "w": KERNELS}, {"activation": "LeakyRelu", "activation_params": [0.3]}),
        ("FusedConv", {"x": IMAGE, "w": KERNELS, "b": normal(3), "z": SUM}, {"activation": "Relu"}),
        ("FusedConv", {"x": IMAGE, "w": KERNELS, "b": None, "z": SUM}, {}),
        ("MatMulInteger16", {"a": SHORTS[0], "b": SHORTS[1].T.copy()}, {}),
    ],
)
def test_every_form(operator: str, inputs: Inputs, attributes: dict[str, object]) -> None:
    agree(*contributed(operator, inputs, ["y"], **attributes))


def test_a_bias_and_a_skip() -> None:
    skip = normal(*X.shape)
    agree(*contributed("BiasAdd", {"x": X, "b": ROW, "s": skip}, ["y"]), judge={"y": X + ROW + skip})


def test_an_attention_of_fused_products_is_fused(tmp_path: Path) -> None:
    q, k, v = (normal(2, 16, 8) for _ in "qkv")
    nodes = [
        helper.make_node("FusedMatMul", ["q", "k"], ["s"], domain="com.microsoft", transB=1, alpha=0.35),
        helper.make_node("Softmax", ["s"], ["p"], axis=-1),
        helper.make_node("FusedMatMul", ["p", "v"], ["y"], domain="com.microsoft"),
    ]
    proto = graph_of(nodes, {"q": q, "k": k, "v": v}, ["y"], domains={"com.microsoft": 1})
    assert fused(proto, tmp_path) == ["attention"]


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes", "what"),
    [
        ("FusedGemm", GEMM, {"activation": "Gelu"}, "the activation Gelu"),
        ("FusedConv", {"x": IMAGE, "w": KERNELS}, {"activation": "Clip", "activation_params": [1.0]}, "1 numbers for"),
        ("FusedMatMul", {"a": X, "b": ROW}, {"channels_last": 1}, "the attribute channels_last"),
    ],
)
def test_other_uses_are_refused(operator: str, inputs: Inputs, attributes: dict[str, object], what: str) -> None:
    refused(*contributed(operator, inputs, ["y"], **attributes), what)
