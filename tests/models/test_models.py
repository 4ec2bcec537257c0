"""The builders: the committed file bit for bit, and every spelling the same function."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from models.attention import MASKS, SPELLINGS, attention
from models.reductions import WORKLOADS
from models.tiny_bert import PATH, BertShape, serialised, tiny_bert
from redfuser.frontend.shapes import graph_inputs
from redfuser.oracle.run import run_float64
from redfuser.samples import random_inputs
from redfuser.signature import TensorSpec


def specs(proto: onnx.ModelProto) -> list[TensorSpec]:
    return [
        TensorSpec(
            value.name,
            tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim),
            str(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)),
        )
        for value in graph_inputs(proto)
    ]


def test_the_committed_bert_is_what_its_builder_writes() -> None:
    assert PATH.read_bytes() == serialised()
    assert PATH.stat().st_size < 400_000


def test_bert_of_another_size() -> None:
    proto = tiny_bert(BertShape(layers=1, batch=2, length=5), seed=3)
    onnx.checker.check_model(proto, full_check=True)
    feeds = random_inputs(specs(proto), 0)
    hidden = run_float64(proto, feeds)["last_hidden_state"]
    assert hidden.shape == (2, 5, 64) and np.isfinite(hidden).all()
    feeds["input_ids"][feeds["attention_mask"] == 0] += 1
    seen = feeds["attention_mask"].astype(bool)
    assert np.allclose(run_float64(proto, feeds)["last_hidden_state"][seen], hidden[seen])


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads_are_valid_and_finite(name: str) -> None:
    proto = WORKLOADS[name]()
    onnx.checker.check_model(proto, full_check=True)
    for value in run_float64(proto, random_inputs(specs(proto), 0)).values():
        assert np.isfinite(value).all()


@pytest.mark.parametrize("group", ["softmax", "logsumexp", "layer_norm", "rms_norm", "variance"])
def test_spellings_of_a_workload_agree(group: str) -> None:
    family = {name: build() for name, build in WORKLOADS.items() if name.startswith(group)}
    assert len(family) > 1
    results = [run_float64(proto, random_inputs(specs(proto), 0))["output"] for proto in family.values()]
    for result in results[1:]:
        assert np.allclose(result, results[0], rtol=1e-9)


def expected_attention(feeds: dict[str, np.ndarray], mask: str, cap: float) -> np.ndarray:
    """In NumPy, from the definition."""
    q, k, v = (feeds[name].astype(np.float64) for name in "qkv")
    k, v = (np.repeat(tensor, q.shape[1] // k.shape[1], axis=1) for tensor in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if cap:
        scores = cap * np.tanh(scores / cap)
    if mask == "boolean":
        scores = np.where(feeds["mask"], scores, -np.inf)
    if mask == "additive":
        scores = scores + feeds["mask"]
    if mask == "causal":
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("cap", [0.0, 2.0])
def test_every_spelling_is_the_same_attention(spelling: str, mask: str, cap: float) -> None:
    if spelling == "replacement" and mask in ("none", "additive"):
        with pytest.raises(ValueError, match="boolean"):
            attention(spelling, mask=mask)
        return
    proto = attention(
        spelling, batch=2, heads=4, kv_heads=2, q_len=3, kv_len=5, head_dim=8, value_dim=6, mask=mask, softcap=cap
    )
    onnx.checker.check_model(proto, full_check=True)
    feeds = random_inputs(specs(proto), 0)
    assert np.allclose(run_float64(proto, feeds)["output"], expected_attention(feeds, mask, cap), atol=1e-6)


def test_unknown_spellings_are_refused() -> None:
    with pytest.raises(ValueError, match="no spelling"):
        attention("fancy")
    with pytest.raises(ValueError, match="no spelling"):
        attention(mask="holes")
