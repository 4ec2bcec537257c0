"""Attention of com.microsoft: projection, heads and masks in one operator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, fused, normal, refused

X = normal(2, 3, 8)
SEEN = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
#: Weights and bias of a projection to queries, keys and values.
QKV = {"x": X, "w": normal(8, 24), "b": normal(24)}
PAST = {"m": np.array([[1, 1, 0, 1, 1], [1] * 5], np.int32), "p": normal(2, 2, 2, 2, 4)}


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes"),
    [
        (QKV, ["y"], {"num_heads": 2}),
        ({**QKV, "b": None, "m": SEEN}, ["y"], {"num_heads": 2, "mask_filter_value": -2.0}),
        ({**QKV, "m": np.stack([SEEN[[0, 0, 1]]] * 2)}, ["y"], {"num_heads": 4, "scale": 0.3}),
        ({**QKV, "m": None, "p": None, "a": normal(2, 2, 3, 3)}, ["y"], {"num_heads": 2}),
        ({**QKV, "m": np.array([2, 3], np.int32)}, ["y"], {"num_heads": 2, "mask_filter_value": -2.0}),
        (QKV, ["y", "kv"], {"num_heads": 2, "unidirectional": 1, "mask_filter_value": -2.0}),
        ({**QKV, **PAST}, ["y", "kv"], {"num_heads": 2, "unidirectional": 1}),
        (
            {"x": X, "w": normal(8, 20), "b": normal(20)},
            ["y"],
            {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 4]},
        ),
    ],
)
def test_every_form(inputs: Inputs, outputs: list[str], attributes: dict[str, object]) -> None:
    agree(*contributed("Attention", inputs, outputs, **attributes))


@pytest.mark.parametrize("unidirectional", [0, 1])
def test_its_cascade_is_fused(unidirectional: int, tmp_path: Path) -> None:
    inputs = {"x": normal(2, 16, 8), "w": normal(8, 24), "b": normal(24)}
    proto, _ = contributed("Attention", inputs, ["y"], ["w", "b"], num_heads=2, unidirectional=unidirectional)
    assert fused(proto, tmp_path) == ["attention"]


@pytest.mark.parametrize(
    ("inputs", "attributes", "what"),
    [
        (QKV, {"num_heads": 2, "do_rotary": 1}, "the attribute do_rotary"),
        (QKV, {"num_heads": 2, "past_present_share_buffer": 1}, "the attribute past_present_share_buffer"),
        ({**QKV, "m": np.array([3, 3, 0, 0], np.int32)}, {"num_heads": 2}, r"a mask of shape \[4\]"),
    ],
)
def test_what_a_definition_does_not_cover_is_refused(inputs: Inputs, attributes: dict[str, object], what: str) -> None:
    refused(*contributed("Attention", inputs, ["y"], **attributes), what)
