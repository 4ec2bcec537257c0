"""Attention of ONNX, with masks, caches and grouped heads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import helper

from redfuser.frontend import lower
from tests.frontend.converters.checking import check, normal
from tests.frontend.running import graph_of, loaded, single

NAN, INF = math.nan, math.inf

Q, K, V = normal(2, 4, 3, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 6)
QKV = {"q": Q, "k": K, "v": V}
SEEN = np.array([[True, True, False, False, True], [False] * 5, [True] * 5])


def test_attention_of_grouped_heads() -> None:
    check(single("Attention", QKV, opset=23), QKV)


@pytest.mark.parametrize(
    "attributes", [{"is_causal": 1}, {"softcap": 2.0}, {"scale": 0.3}, {"is_causal": 1, "softcap": 1.0}]
)
def test_attention_attributes(attributes: dict[str, float]) -> None:
    check(single("Attention", QKV, opset=23, **attributes), QKV)


def test_attention_of_flat_heads() -> None:
    feeds = {"q": normal(2, 3, 32), "k": normal(2, 5, 16), "v": normal(2, 5, 12)}
    check(single("Attention", feeds, opset=23, q_num_heads=4, kv_num_heads=2), feeds)


@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_attention_rows_that_see_nothing_are_zero(kind: str) -> None:
    mask = SEEN if kind == "bool" else np.where(SEEN, 0.5, -INF).astype(np.float32)
    feeds = {**QKV, "mask": np.broadcast_to(mask, (2, 1, 3, 5)).copy()}
    got = check(single("Attention", feeds, opset=23), feeds)[0]
    assert not got[:, :, 1].any()


def test_attention_with_a_constant_mask() -> None:
    got = check(single("Attention", QKV, {"mask": SEEN}, opset=23), QKV)[0]
    assert not got[:, :, 1].any()
    nothing_hidden = lower(loaded(single("Attention", QKV, {"mask": np.ones((3, 5), bool)}, opset=23)))
    without_mask = lower(loaded(single("Attention", QKV, opset=23)))
    assert len(nothing_hidden.provenance) == len(without_mask.provenance)


def test_attention_with_a_short_mask_is_padded() -> None:
    feeds = {**QKV, "mask": normal(3, 4)}
    check(single("Attention", feeds, opset=23), feeds)


def test_attention_with_a_cache() -> None:
    feeds = {**QKV, "_mask": Q, "past_k": normal(2, 2, 4, 8), "past_v": normal(2, 2, 4, 6)}
    feeds.pop("_mask")
    names = ["q", "k", "v", "", "past_k", "past_v"]
    node = helper.make_node("Attention", names, ["y", "pk", "pv", "qk"], is_causal=1, qk_matmul_output_mode=3)
    check(graph_of([node], feeds, ["y", "pk", "pv", "qk"], opset=23), feeds)


@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1}])
def test_attention_with_padded_keys(attributes: dict[str, int]) -> None:
    feeds = {**QKV, "valid": np.array([2, 5])}
    node = helper.make_node("Attention", ["q", "k", "v", "", "", "", "valid"], ["y"], **attributes)
    check(graph_of([node], feeds, ["y"], opset=24), feeds)


def test_attention_in_half_precision_accumulates_wide() -> None:
    feeds = {name: value.astype(np.float16) for name, value in QKV.items()}
    check(single("Attention", feeds, opset=23), feeds)
