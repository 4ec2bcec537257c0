"""MultiHeadAttention of com.microsoft."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, fused, normal, refused

RNG = np.random.default_rng(1)
#: 4 queries of two heads, 6 keys, values of another width.
CROSS = {"q": normal(2, 4, 8), "k": normal(2, 6, 8), "v": normal(2, 6, 12)}
SELF = {"q": normal(2, 4, 8), "k": normal(2, 4, 8), "v": normal(2, 4, 8)}
#: Keys and values of another sequence, heads apart.
APART = {"q": normal(2, 4, 8), "k": normal(2, 2, 6, 4), "v": normal(2, 2, 6, 4)}
PAST = {"pk": normal(2, 2, 3, 4), "pv": normal(2, 2, 3, 4)}
NO_MASK = {"b": None, "m": None, "a": None}


def ones_and_zeros(*shape: int) -> np.ndarray:
    mask = RNG.integers(0, 2, shape).astype(np.int32)
    mask[..., 0] = 1
    return mask


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes"),
    [
        (CROSS, ["y"], {}),
        (CROSS, ["y"], {"scale": 0.3}),
        ({**CROSS, "b": normal(28)}, ["y"], {}),
        ({**CROSS, "b": None, "m": np.array([3, 6], np.int32)}, ["y"], {"mask_filter_value": -2.0}),
        ({**CROSS, "b": None, "m": ones_and_zeros(2, 6)}, ["y"], {"mask_filter_value": -2.0}),
        ({**CROSS, "b": normal(28), "m": ones_and_zeros(2, 4, 6), "a": normal(1, 2, 4, 6)}, ["y"], {}),
        ({**CROSS, "b": None, "m": None, "a": normal(2, 1, 4, 6)}, ["y", "k1", "v1"], {}),
        (APART, ["y"], {}),
        ({**APART, "b": normal(24), "m": ones_and_zeros(2, 6)}, ["y"], {}),
        (SELF, ["y", "k1", "v1"], {"unidirectional": 1, "mask_filter_value": -2.0}),
        ({**SELF, "b": normal(24), "m": ones_and_zeros(2, 4)}, ["y"], {"unidirectional": 1}),
        ({**SELF, **NO_MASK, **PAST}, ["y", "k1", "v1"], {"unidirectional": 1, "mask_filter_value": -2.0}),
        ({**SELF, **NO_MASK, "m": ones_and_zeros(2, 7), **PAST}, ["y", "k1", "v1"], {}),
        ({**SELF, **NO_MASK, "a": normal(1, 1, 4, 7), **PAST}, ["y", "k1", "v1"], {}),
    ],
)
def test_every_form(inputs: Inputs, outputs: list[str], attributes: dict[str, object]) -> None:
    agree(*contributed("MultiHeadAttention", inputs, outputs, num_heads=2, **attributes))


def heads(flat: np.ndarray) -> np.ndarray:
    """(B, S, 8) as (B, S, 2, 4)."""
    return flat.reshape(*flat.shape[:2], 2, 4)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("together", [2, 3])
def test_packed_operands_are_those_apart(together: int, biased: bool) -> None:
    """ONNX Runtime has no kernel of these on CPUs."""
    if biased and together == 2:
        pytest.skip("ONNX Runtime's specification has no bias of packed keys and values")
    bias = {"b": normal(24) if biased else None}
    judge = agree(*contributed("MultiHeadAttention", {**SELF, **bias}, ["y"], num_heads=2))
    packed = np.stack([heads(SELF[name]) for name in "qkv"[3 - together :]], 3)
    inputs = {"x": packed} if together == 3 else {"q": SELF["q"], "kv": packed}
    padding = {"k": None, "v": None} if together == 3 else {"v": None}
    agree(*contributed("MultiHeadAttention", {**inputs, **padding, **bias}, ["y"], num_heads=2), judge=judge)


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ({"q": normal(2, 16, 8), "k": normal(2, 16, 8), "v": normal(2, 16, 8)}, {"unidirectional": 1}),
        ({"x": normal(2, 16, 2, 3, 4)}, {}),
        ({"q": normal(2, 8, 8), "k": normal(2, 2, 16, 4), "v": normal(2, 2, 16, 4)}, {}),
    ],
)
def test_its_cascade_is_fused(inputs: Inputs, attributes: dict[str, object], tmp_path: Path) -> None:
    proto, _ = contributed("MultiHeadAttention", inputs, ["y"], num_heads=2, **attributes)
    assert fused(proto, tmp_path) == ["attention"]


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes", "what"),
    [
        (CROSS, ["y"], {"unidirectional": 1}, "unidirectional and 6 keys for 4 queries"),
        ({**CROSS, "b": None, "m": np.zeros(8, np.int32)}, ["y"], {}, r"a mask of shape \[8\]"),
        ({**SELF, **NO_MASK, "m": ones_and_zeros(2, 4), **PAST}, ["y"], {}, "a mask of 4 keys"),
        ({**SELF, **NO_MASK, "pk": PAST["pk"]}, ["y"], {}, "one past state"),
        ({**SELF, **NO_MASK, **PAST, "n": np.array([3], np.int32)}, ["y"], {}, "past_sequence_length"),
        (CROSS, ["y", "", "", "qk"], {}, "its output qk"),
        ({"q": normal(2, 4, 24)}, ["y"], {}, "queries of rank 3 and no keys"),
        (CROSS, ["y"], {"do_rotary": 1}, "the attribute do_rotary"),
    ],
)
def test_other_uses_are_refused(inputs: Inputs, outputs: list[str], attributes: dict[str, object], what: str) -> None:
    refused(*contributed("MultiHeadAttention", inputs, outputs, num_heads=2, **attributes), what)
