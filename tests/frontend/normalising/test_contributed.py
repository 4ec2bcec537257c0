"""Operators of com.microsoft by their definition, against ONNX Runtime's own kernels."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

from redfuser.errors import UnsupportedOperatorError, VerificationError
from redfuser.frontend import lower
from redfuser.oracle import run_float64, run_onnxruntime
from tests.frontend.running import graph_of, loaded, lower_and_run

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


X, SKIP, ROW = normal(2, 3, 8), normal(2, 3, 8), normal(8)
WORDS = RNG.integers(0, 9, (2, 3)).astype(np.int32)
SEEN = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
SHORTS = RNG.integers(-99, 99, (2, 3, 4)).astype(np.int16)
#: Weights and bias of a projection to queries, keys and values.
QKV = {"x": X, "w": normal(8, 24), "b": normal(24)}
EMBED = {"i": WORDS, "s": WORDS % 2, "w": normal(9, 8), "p": normal(5, 8), "k": normal(2, 8), "g": ROW, "b": normal(8)}


def contributed(
    operator: str, inputs: dict[str, np.ndarray | None], outputs: list[str], **attributes: object
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and what to feed it; an input that is None is left out."""
    feeds = {name: array for name, array in inputs.items() if array is not None}
    names = [name if name in feeds else "" for name in inputs]
    node = helper.make_node(operator, names, outputs, name="node", domain="com.microsoft", **attributes)
    return graph_of([node], feeds, [o for o in outputs if o], domains={"com.microsoft": 1}, opset=17), feeds


@pytest.mark.parametrize(
    ("operator", "inputs", "outputs", "attributes"),
    [
        ("BiasGelu", {"x": X, "b": ROW}, ["y"], {}),
        ("FastGelu", {"x": X, "b": ROW}, ["y"], {}),
        ("FastGelu", {"x": X}, ["y"], {}),
        ("Gelu", {"x": X}, ["y"], {}),
        ("MatMulInteger16", {"a": SHORTS[0], "b": SHORTS[1].T}, ["y"], {}),
        ("SkipLayerNormalization", {"x": X, "s": SKIP, "g": ROW}, ["y"], {"epsilon": 1e-5}),
        ("SkipLayerNormalization", {"x": X, "s": SKIP[0], "g": ROW, "b": ROW}, ["y"], {"epsilon": 0.5}),
        ("SkipLayerNormalization", {"x": X, "s": SKIP, "g": ROW, "b": None, "c": ROW}, ["y", "", "", "z"], {}),
        ("SkipLayerNormalization", {"x": X, "s": SKIP, "g": ROW, "b": ROW, "c": ROW}, ["y", "m", "d", "z"], {}),
        ("SkipSimplifiedLayerNormalization", {"x": X, "s": SKIP, "g": ROW}, ["y"], {"epsilon": 1e-5}),
        ("SkipSimplifiedLayerNormalization", {"x": X[0], "s": SKIP[0], "g": ROW, "b": ROW}, ["y", "", "", "z"], {}),
        ("SkipSimplifiedLayerNormalization", {"x": X, "s": SKIP, "g": ROW, "b": ROW}, ["y", "", "d", "z"], {}),
        ("EmbedLayerNormalization", {**EMBED, "m": SEEN}, ["y", "n", "z"], {"epsilon": 1e-5}),
        ("EmbedLayerNormalization", {**EMBED, "s": None, "k": None}, ["y", "n"], {}),
        ("EmbedLayerNormalization", {**EMBED, "m": None, "o": WORDS // 2}, ["y", "n"], {}),
        ("Attention", QKV, ["y"], {"num_heads": 2}),
        ("Attention", {**QKV, "b": None, "m": SEEN}, ["y"], {"num_heads": 2, "mask_filter_value": -2.0}),
        ("Attention", {**QKV, "m": np.stack([SEEN[[0, 0, 1]]] * 2)}, ["y"], {"num_heads": 4, "scale": 0.3}),
        ("Attention", {**QKV, "m": None, "p": None, "a": normal(2, 2, 3, 3)}, ["y"], {"num_heads": 2}),
        ("Attention", QKV, ["y", "kv"], {"num_heads": 2, "unidirectional": 1}),
        (
            "Attention",
            {**QKV, "m": np.array([[1, 1, 0, 1, 1], [1] * 5], np.int32), "p": normal(2, 2, 2, 2, 4)},
            ["y", "kv"],
            {"num_heads": 2, "unidirectional": 1},
        ),
        (
            "Attention",
            {"x": X, "w": normal(8, 20), "b": normal(20)},
            ["y"],
            {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]},
        ),
    ],
)
def test_every_form(
    operator: str, inputs: dict[str, np.ndarray | None], outputs: list[str], attributes: dict[str, object]
) -> None:
    proto, feeds = contributed(operator, inputs, outputs, **attributes)
    exact = run_float64(proto, feeds)
    statistics = {"m", "d"} if operator == "SkipLayerNormalization" else set()
    judge, _ = contributed(operator, inputs, ["" if name in statistics else name for name in outputs], **attributes)
    for name, value in run_onnxruntime(judge, feeds, 1).items():
        np.testing.assert_allclose(exact[name], value, rtol=1e-5, atol=1e-5)
    if statistics.intersection(outputs):
        total = X.astype(np.float64) + SKIP + ROW
        np.testing.assert_allclose(exact["m"], total.mean(-1, keepdims=True), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(exact["d"], 1 / np.sqrt(total.var(-1, keepdims=True) + 1e-12), rtol=1e-6, atol=1e-7)


def block(attention: bool = True) -> list[NodeProto]:
    """One layer of an encoder, as ONNX Runtime's optimiser writes it."""
    kinds = [("Attention", ["x", "w", "b"], {"num_heads": 2})] if attention else [("Gelu", ["x"], {})]
    kinds += [
        ("SkipLayerNormalization", ["n0", "x", "g"], {"epsilon": 1e-5}),
        ("BiasGelu", ["n1", "g"], {}),
        ("SkipSimplifiedLayerNormalization", ["n2", "n1", "g"], {"epsilon": 1e-5}),
        ("FastGelu", ["n3"], {}),
    ]
    return [
        helper.make_node(kind, names, [f"n{place}"], name=f"at{place}", domain="com.microsoft", **attributes)
        for place, (kind, names, attributes) in enumerate(kinds)
    ]


def test_a_model_of_them_is_compiled() -> None:
    constants = {"w": QKV["w"], "b": QKV["b"], "g": ROW}
    proto = graph_of(block(), {"x": X}, ["n4"], constants, domains={"com.microsoft": 1})
    got = lower_and_run(proto, {"x": X})[0]
    np.testing.assert_allclose(got, run_float64(proto, {"x": X})["n4"], rtol=1e-4, atol=1e-5)
    lowered = lower(loaded(proto))
    assert any("LayerNormalization" in name for name in lowered.operators)
    assert all(name.startswith("at") for name in lowered.operators)


def test_sizes_may_stay_open() -> None:
    constants = {"w": QKV["w"], "b": QKV["b"], "g": ROW}
    proto = graph_of(block(), {"x": (1, ["batch", "seq", 8])}, ["n4"], constants, domains={"com.microsoft": 1})
    assert lower(loaded(proto)).outputs[0].shape == ("batch", "seq", 8)


def test_half_precision_is_normalised_in_single() -> None:
    half = {name: array.astype(np.float16) for name, array in {"x": X, "s": SKIP, "g": ROW}.items()}
    for operator in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        proto, _ = contributed(operator, half, ["y"], epsilon=1e-5)
        lowered = lower(loaded(proto))
        assert lowered.outputs[0].dtype == "float16"
        assert "Cast" in lowered.operators.values()


@pytest.mark.parametrize(
    ("inputs", "attributes", "what"),
    [
        (QKV, {"num_heads": 2, "do_rotary": 1}, "the attribute do_rotary"),
        (QKV, {"num_heads": 2, "past_present_share_buffer": 1}, "the attribute past_present_share_buffer"),
        ({**QKV, "m": SEEN[:, 0]}, {"num_heads": 2}, "a mask_index of rank 1"),
    ],
)
def test_what_a_definition_does_not_cover_is_refused(
    inputs: dict[str, np.ndarray | None], attributes: dict[str, object], what: str
) -> None:
    proto, feeds = contributed("Attention", inputs, ["y"], **attributes)
    with pytest.raises(UnsupportedOperatorError, match=rf"Attention of domain 'com.microsoft' \(node 'node'\).*{what}"):
        lower(loaded(proto))
    with pytest.raises(UnsupportedOperatorError, match=what):
        run_float64(proto, feeds)


def test_other_operators_of_the_domain_are_kept_and_refused_by_name() -> None:
    proto, feeds = contributed("Rfft", {"x": X}, ["y"])
    with pytest.raises(UnsupportedOperatorError, match=r"operator Rfft of domain 'com\.microsoft'"):
        lower(loaded(proto))
    with pytest.raises(VerificationError, match="Rfft"):
        run_float64(proto, feeds)
