"""GroupQueryAttention of com.microsoft."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, fused, normal, refused
from tests.frontend.running import loaded

NAMES = ["q", "k", "v", "pk", "pv", "last", "total", "cos", "sin", "at", "bias", "sink"]
COUNTS = {"num_heads": 4, "kv_num_heads": 2}


def lengths(total: int, *rows: int) -> dict[str, np.ndarray]:
    """``seqlens_k`` and ``total_sequence_length`` of rows with so many keys."""
    return {"last": np.array(rows, np.int32) - 1, "total": np.array(total, np.int32)}


def caches() -> dict[str, np.ndarray]:
    angles = normal(16, 8)
    return {"cos": np.cos(angles), "sin": np.sin(angles)}


def past(batch: int, room: int) -> dict[str, np.ndarray]:
    return {"pk": normal(batch, 2, room, 16), "pv": normal(batch, 2, room, 16)}


def new(batch: int, count: int) -> dict[str, np.ndarray]:
    """Queries of 4 heads, keys and values of 2, 16 wide."""
    return {"q": normal(batch, count, 64), "k": normal(batch, count, 32), "v": normal(batch, count, 32)}


def together(parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"q": np.concatenate(list(parts.values()), -1)}


PROMPT = {**new(2, 5), **lengths(5, 5, 5)}
STEP = {**new(2, 1), **past(2, 6)}
SINK = {"sink": normal(4)}
BIAS = {"bias": normal(1, 4, 5, 5)}


def node(
    inputs: Inputs, outputs: list[str], constants: tuple[str, ...] = ("total",), **attributes: object
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of one node; an input without an array is left out."""
    named: dict[str, np.ndarray | None] = {name: inputs.get(name) for name in NAMES}
    while next(reversed(named.values())) is None:
        named.popitem()
    return contributed("GroupQueryAttention", named, outputs, constants, **COUNTS, **attributes)


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        (PROMPT, {}),
        ({**PROMPT, **BIAS}, {"scale": 0.3, "softcap": 2.0}),
        (PROMPT, {"causal": 0}),
        (PROMPT, {"local_window_size": 3}),
        (PROMPT, {"smooth_softmax": 1}),
        ({**PROMPT, **SINK}, {"local_window_size": 3}),
        ({**together(new(2, 5)), **lengths(5, 5, 5), **caches()}, {"do_rotary": 1, "rotary_interleaved": 1}),
        ({**PROMPT, **caches()}, {"do_rotary": 1}),
        ({**PROMPT, **caches(), "at": np.arange(10).reshape(2, 5) + 3}, {"do_rotary": 1}),
        ({**PROMPT, **past(2, 9)}, {}),
        ({**PROMPT, **past(2, 0)}, {}),
        ({**STEP, **lengths(7, 7, 7)}, {}),
        ({**STEP, **lengths(7, 7, 4)}, {"local_window_size": 3}),
        ({**STEP, **lengths(5, 5, 4), **caches()}, {"do_rotary": 1}),
        ({**STEP, **lengths(6, 5, 6), "bias": normal(2, 1, 1, 6)}, {"softcap": 3.0}),
        ({**together(new(2, 1)), **past(2, 6), **lengths(7, 7, 3), **caches(), **SINK}, {"do_rotary": 1}),
        ({**new(1, 3), **past(1, 6), **lengths(9, 9), **caches()}, {"do_rotary": 1, "local_window_size": 4}),
        ({**new(1, 3), **past(1, 8), **lengths(7, 7)}, {}),
    ],
)
def test_every_form(inputs: Inputs, attributes: dict[str, object]) -> None:
    agree(*node(inputs, ["y", "k1", "v1"], **attributes))


def test_a_prompt_of_rows_of_several_lengths() -> None:
    """Behind the end of a row nothing is specified; before it, a causal attention doesn't see what is behind."""
    proto, feeds = node({**PROMPT, **lengths(5, 3, 5)}, ["y"])
    ragged = agree(proto, feeds, judge=run_float64(*node(PROMPT, ["y"])))["y"]
    judge = run_onnxruntime(proto, feeds, 1)["y"]
    np.testing.assert_allclose(ragged[0, :3], judge[0, :3], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ragged[1], judge[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ({**new(2, 16), **lengths(16, 16, 16), **caches()}, {"do_rotary": 1}),
        ({**new(2, 16), **lengths(16, 16, 16), **SINK}, {"local_window_size": 5}),
        ({**new(2, 1), **past(2, 31), **lengths(32, 32, 20), **caches()}, {"do_rotary": 1}),
    ],
)
def test_its_cascade_is_fused(inputs: Inputs, attributes: dict[str, object], tmp_path: Path) -> None:
    proto, _ = node(inputs, ["y", "k1", "v1"], ("total", "cos", "sin"), **attributes)
    assert fused(proto, tmp_path) == ["attention"]


def test_a_prompt_may_stay_open() -> None:
    proto, _ = node(PROMPT, ["y"])
    for value in proto.graph.input:
        for dim, name in zip(value.type.tensor_type.shape.dim, ["batch", "seq"], strict=False):
            dim.dim_param = name
    assert lower(loaded(proto)).outputs[0].shape == ("batch", "seq", 64)


@pytest.mark.parametrize(
    ("inputs", "outputs", "attributes", "what"),
    [
        (PROMPT, ["y", "", "", "qk"], {"qk_output": 1}, "its output output_qk"),
        (PROMPT, ["y"], {"sliding_window_cache": 1}, "the attribute sliding_window_cache"),
        (PROMPT, ["y"], {"causal": 0, "local_window_size": 3}, "a window that isn't causal"),
        (PROMPT, ["y"], {"k_quant_type": "PER_TENSOR"}, "k_quant_type"),
        ({**new(2, 3), **past(2, 6), **lengths(9, 9, 9)}, ["y"], {}, "3 new keys behind a past, in a batch"),
        ({**PROMPT, "k": normal(2, 4, 32), "v": normal(2, 4, 32)}, ["y"], {}, "4 new keys for 5 queries"),
    ],
)
def test_other_uses_are_refused(inputs: Inputs, outputs: list[str], attributes: dict[str, object], what: str) -> None:
    refused(*node(inputs, outputs, **attributes), what)


def test_a_past_whose_length_only_the_call_knows_is_refused() -> None:
    proto, _ = node({**STEP, **lengths(7, 7, 7)}, ["y"], ())
    with pytest.raises(
        UnsupportedOperatorError, match="total_sequence_length that is known only on the call"
    ) as refusal:
        lower(loaded(proto))
    assert "--value" in refusal.value.hint
