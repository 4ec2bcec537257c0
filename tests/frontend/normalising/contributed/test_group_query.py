"""GroupQueryAttention of com.microsoft."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from redfuser.errors import UnsupportedOperatorError, UsageError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64, run_onnxruntime
from redfuser.signature import DimRange, DimSum
from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, fused, normal, refused
from tests.frontend.running import compiled, graph_of, loaded

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
        ({**PROMPT, "k": normal(2, 4, 32), "v": normal(2, 4, 32)}, ["y"], {}, "4 new keys for 5 queries"),
    ],
)
def test_other_uses_are_refused(inputs: Inputs, outputs: list[str], attributes: dict[str, object], what: str) -> None:
    refused(*node(inputs, outputs, **attributes), what)


def test_a_total_that_only_the_call_knows_is_refused() -> None:
    proto, _ = node({**STEP, **lengths(7, 7, 7)}, ["y"], ())
    with pytest.raises(UnsupportedOperatorError, match="how long a range is must be a constant") as refusal:
        lower(loaded(proto))
    assert "--value" in refusal.value.hint


def test_several_new_keys_of_each_row_of_a_batch() -> None:
    """ONNX Runtime takes one row then; each row by itself says what is right."""
    inputs = {**new(2, 3), **past(2, 6), **caches()}
    proto, feeds = node({**inputs, **lengths(9, 9, 7)}, ["y", "k1", "v1"], do_rotary=1)
    rows = []
    for row, count in enumerate((9, 7)):
        own = {name: array if name in ("cos", "sin") else array[row : row + 1] for name, array in inputs.items()}
        alone, feed = node({**own, **lengths(9, count)}, ["y", "k1", "v1"], do_rotary=1)
        rows.append(run_onnxruntime(alone, feed, 1))
    agree(proto, feeds, judge={name: np.concatenate([row[name] for row in rows]) for name in rows[0]})


#: Sizes of a call: sequences, new keys, keys before them; and how many keys each sequence has.
CALLS: list[tuple[int, int, int, tuple[int, ...]]] = [
    (1, 5, 0, (5,)),
    (2, 4, 0, (4, 4)),
    (2, 1, 6, (7, 4)),
    (1, 3, 4, (7,)),
    (2, 1, 0, (1, 1)),
]

#: An open past, its keys counted by a mask, as onnxruntime-genai exports it.
OPEN = {"q": (64,), "k": (32,), "v": (32,)}
PACKED = {"q": (128,)}


def decoder(
    operands: dict[str, tuple[int, ...]], room: int | str, kind: int, more: dict[str, np.ndarray], **attributes: object
) -> ModelProto:
    inputs: dict[str, tuple[int, list[int | str]]] = {"mask": (TensorProto.INT64, ["batch", "all"])}
    inputs |= {name: (kind, ["batch", "new", *width]) for name, width in operands.items()}
    inputs |= {name: (kind, ["batch", 2, room, 16]) for name in ("pk", "pv")}
    if "at" in more:
        inputs["at"] = (TensorProto.INT64, ["batch", "new"])
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    own = {name: array.astype(dtype) for name, array in {**caches(), **more}.items() if name != "at"}
    names = ["at" if name == "at" and "at" in more else name if name in {*inputs, *own} else "" for name in NAMES]
    names[5:7] = "last", "total"
    while not names[-1]:
        names.pop()
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axis"], ["count"], keepdims=0),
        helper.make_node("Sub", ["count", "one"], ["place"]),
        helper.make_node("Cast", ["place"], ["last"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["shape"]),
        helper.make_node("Gather", ["shape", "second"], ["length"]),
        helper.make_node("Cast", ["length"], ["total"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention", names, ["y", "k1", "v1"], name="node", domain="com.microsoft", **COUNTS, **attributes
        ),
    ]
    own |= {"axis": np.array([1]), "one": np.array(1), "second": np.array(1)}
    return graph_of(nodes, inputs, ["y", "k1", "v1"], own, domains={"com.microsoft": 1}, opset=17)


def call(proto: ModelProto, sizes: dict[str, int], counts: tuple[int, ...]) -> dict[str, np.ndarray]:
    feeds: dict[str, np.ndarray] = {}
    for value in proto.graph.input:
        shape = [sizes.get(d.dim_param, d.dim_value) for d in value.type.tensor_type.shape.dim]
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = normal(*shape).astype(kind)
    feeds["mask"] = (np.arange(sizes["all"]) < np.array(counts)[:, None]).astype(np.int64)
    if "at" in feeds:
        places = np.array(counts)[:, None] - sizes["new"] + np.arange(sizes["new"])
        feeds["at"] = np.maximum(places, 0)
    return feeds


@pytest.mark.parametrize(
    ("room", "operands", "kind", "more", "attributes"),
    [
        ("past", OPEN, TensorProto.FLOAT, {}, {}),
        ("past", OPEN, TensorProto.FLOAT, {"at": np.zeros(0)}, {"do_rotary": 1, "local_window_size": 3}),
        ("past", OPEN, TensorProto.FLOAT, {}, {"softcap": 2.0, "smooth_softmax": 1}),
        ("past", PACKED, TensorProto.FLOAT, SINK, {"do_rotary": 1, "rotary_interleaved": 1}),
        ("past", OPEN, TensorProto.FLOAT16, {}, {"do_rotary": 1}),
        ("past", OPEN, TensorProto.BFLOAT16, {}, {"do_rotary": 1}),
        (9, OPEN, TensorProto.FLOAT, {}, {"do_rotary": 1}),
        (9, PACKED, TensorProto.FLOAT, {}, {"local_window_size": 3}),
    ],
    ids=["plain", "positions", "softcap", "sink", "float16", "bfloat16", "buffer", "packed buffer"],
)
def test_one_module_for_prompts_and_steps(
    room: int | str,
    operands: dict[str, tuple[int, ...]],
    kind: int,
    more: dict[str, np.ndarray],
    attributes: dict[str, object],
) -> None:
    proto = decoder(operands, room, kind, more, **attributes)
    lowered = lower(loaded(proto))
    assert lowered.sums == ({"all": DimSum({"new": 1, "past": 1})} if room == "past" else {})
    module = compiled(lowered)
    tolerance = {TensorProto.FLOAT: 1e-5, TensorProto.FLOAT16: 5e-3, TensorProto.BFLOAT16: 5e-2}[kind]
    for batch, count, before, counts in CALLS:
        sizes = {"batch": batch, "new": count, "past": before, "all": count + before}
        feeds = call(proto, sizes, counts)
        results = dict(zip(["y", "k1", "v1"], module(feeds), strict=True))
        exact = run_float64(proto, feeds)
        judge = exact if kind == TensorProto.BFLOAT16 else run_onnxruntime(proto, feeds, 1)
        for name, result in results.items():
            for right in (exact, judge):
                np.testing.assert_allclose(
                    result.astype(float), right[name].astype(float), tolerance, tolerance, err_msg=f"{name} {sizes}"
                )


def test_the_tables_of_angles_end_what_a_module_takes() -> None:
    lowered = lower(loaded(decoder(OPEN, "past", TensorProto.FLOAT, {}, do_rotary=1)))
    assert lowered.dims["all"] == DimRange(1, 16) and lowered.dims["past"] == DimRange(0, 15)
    assert lowered.outputs[1].shape == ("batch", 2, "all", 16)
    with pytest.raises(UsageError, match="--dim all=1:20: the model takes sizes of 1:16 alone"):
        lower(loaded(decoder(OPEN, "past", TensorProto.FLOAT, {}, do_rotary=1)), {"all": DimRange(1, 20)})


def test_a_buffer_ends_what_a_module_takes() -> None:
    lowered = lower(loaded(decoder(OPEN, 9, TensorProto.FLOAT, {})))
    assert lowered.dims["all"] == DimRange(1, 9) and lowered.outputs[1].shape == ("batch", 2, 9, 16)


def test_nodes_that_definitions_alone_may_use_are_refused() -> None:
    proto = graph_of(
        [helper.make_node("Append", ["x", "x", "x", "x"], ["y"], name="node", domain="redfuser.own")],
        {"x": (TensorProto.FLOAT, [1])},
        ["y"],
        domains={"redfuser.own": 1},
    )
    with pytest.raises(UnsupportedOperatorError, match=r"operator Append of domain 'redfuser\.own'"):
        lower(loaded(proto))
