"""Normalisations of com.microsoft, and the one that ONNX Runtime writes as if it were ONNX's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from redfuser.frontend import load_model, lower
from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.normalise import OPSET
from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, fused, normal, saved
from tests.frontend.normalising.graphs import normalise
from tests.frontend.running import loaded

RNG = np.random.default_rng(0)
X, SKIP, ROW = normal(2, 3, 8), normal(2, 3, 8), normal(8)
WORDS = RNG.integers(0, 9, (2, 3)).astype(np.int32)
SEEN = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
EMBED = {"i": WORDS, "s": WORDS % 2, "w": normal(9, 8), "p": normal(5, 8), "k": normal(2, 8), "g": ROW, "b": normal(8)}


@pytest.mark.parametrize(
    ("operator", "inputs", "outputs", "attributes"),
    [
        ("SkipLayerNormalization", {"x": X, "s": SKIP, "g": ROW}, ["y"], {"epsilon": 1e-5}),
        ("SkipLayerNormalization", {"x": X, "s": SKIP[0], "g": ROW, "b": ROW}, ["y"], {"epsilon": 0.5}),
        ("SkipLayerNormalization", {"x": X, "s": SKIP, "g": ROW, "b": None, "c": ROW}, ["y", "", "", "z"], {}),
        ("SkipSimplifiedLayerNormalization", {"x": X, "s": SKIP, "g": ROW}, ["y"], {"epsilon": 1e-5}),
        ("SkipSimplifiedLayerNormalization", {"x": X[0], "s": SKIP[0], "g": ROW, "b": ROW}, ["y", "", "", "z"], {}),
        ("SkipSimplifiedLayerNormalization", {"x": X, "s": SKIP, "g": ROW, "b": ROW}, ["y", "", "d", "z"], {}),
        ("EmbedLayerNormalization", {**EMBED, "m": SEEN}, ["y", "n", "z"], {"epsilon": 1e-5}),
        ("EmbedLayerNormalization", {**EMBED, "s": None, "k": None}, ["y", "n"], {}),
        ("EmbedLayerNormalization", {**EMBED, "m": None, "o": WORDS // 2}, ["y", "n"], {}),
    ],
)
def test_every_form(operator: str, inputs: Inputs, outputs: list[str], attributes: dict[str, object]) -> None:
    agree(*contributed(operator, inputs, outputs, **attributes))


def test_statistics_that_onnx_runtime_leaves_out() -> None:
    inputs = {"x": X, "s": SKIP, "g": ROW, "b": ROW, "c": ROW}
    proto, feeds = contributed("SkipLayerNormalization", inputs, ["y", "m", "d", "z"])
    exact = agree(proto, feeds, unjudged=["m", "d"])
    total = X.astype(np.float64) + SKIP + ROW
    np.testing.assert_allclose(exact["m"], total.mean(-1, keepdims=True), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(exact["d"], 1 / np.sqrt(total.var(-1, keepdims=True) + 1e-12), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("attributes", [{}, {"axis": -1, "epsilon": 1e-2, "stash_type": 1}, {"axis": 2}])
@pytest.mark.parametrize("outputs", [["y"], ["y", "d"]])
def test_simplified_layer_norm_stands_in_the_domain_of_onnx(
    outputs: list[str], attributes: dict[str, object], tmp_path: Path
) -> None:
    proto, feeds = contributed("SimplifiedLayerNormalization", {"x": X, "g": ROW}, outputs, domain="", **attributes)
    agree(proto, feeds)
    kept = load_model(saved(proto, tmp_path)).proto.graph.node  # as the file has it, for ONNX Runtime to read
    assert [node.domain for node in kept] == [""]


def test_simplified_layer_norm_in_its_own_domain() -> None:
    proto, feeds = contributed("SimplifiedLayerNormalization", {"x": X, "g": ROW}, ["y"])
    expected = X / np.sqrt((X.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5) * ROW
    agree(proto, feeds, judge={"y": expected})


@pytest.mark.parametrize("operator", ["LayerNormalization", "SimplifiedLayerNormalization"])
def test_operator_sets_too_old_for_it_are_brought_up(operator: str, tmp_path: Path) -> None:
    proto, feeds = contributed(operator, {"x": X, "g": ROW}, ["y"], domain="")
    proto.opset_import[0].version = 14
    agree(proto, feeds)
    load_model(saved(proto, tmp_path))
    upgraded = normalise(proto)
    assert {node.domain for node in upgraded.graph.node} == {""}
    assert opset_of(upgraded) == OPSET


def test_its_cascade_is_fused(tmp_path: Path) -> None:
    proto, _ = contributed("SimplifiedLayerNormalization", {"x": X, "g": ROW}, ["y"], ["g"], domain="")
    assert fused(proto, tmp_path) == ["norm"]


def test_half_precision_is_normalised_in_single() -> None:
    half = {name: array.astype(np.float16) for name, array in {"x": X, "s": SKIP, "g": ROW}.items()}
    for operator in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        proto, _ = contributed(operator, half, ["y"], epsilon=1e-5)
        lowered = lower(loaded(proto))
        assert lowered.outputs[0].dtype == "float16"
        assert "Cast" in lowered.operators.values()
