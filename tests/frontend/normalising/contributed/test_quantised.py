"""Quantised operators of com.microsoft."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, normal, refused
from tests.frontend.normalising.graphs import normalise
from tests.frontend.running import graph_of, loaded, run

RNG = np.random.default_rng(2)
A = normal(3, 8)
ROWS, COLUMNS = 40, 6  # of a weight: two blocks of 32, the second cut short
WHOLE = ["w", "s", "z"]


def random_bytes(*shape: int, kind: type = np.uint8) -> np.ndarray:
    bounds = np.iinfo(kind)
    return np.asarray(RNG.integers(bounds.min, bounds.max + 1, shape), kind)


def scales(*shape: int) -> np.ndarray:
    return np.asarray(RNG.random(shape) + 0.1, np.float32)


def packed(bits: int, zeros: str = "") -> dict[str, np.ndarray | None]:
    """An input, and a weight in blocks of 32 with its scales and zero points."""
    blocks = 2
    points = {
        "": None,
        "packed": random_bytes(COLUMNS, -(-blocks * bits // 8)),
        "float": normal(COLUMNS, blocks),
    }[zeros]
    weight = {"w": random_bytes(COLUMNS, blocks, 32 * bits // 8), "s": scales(COLUMNS, blocks) / (1 << bits)}
    return {"x": normal(2, 3, ROWS), **weight, "z": points}


def sizes(bits: int) -> dict[str, int]:
    return {"K": ROWS, "N": COLUMNS, "bits": bits, "block_size": 32}


@pytest.mark.parametrize(
    ("bits", "zeros"),  # ONNX Runtime has no kernel of 8 bits with zero points in floating point
    [(bits, zeros) for bits in (2, 4, 8) for zeros in ("", "packed", "float") if (bits, zeros) != (8, "float")],
)
def test_a_weight_of_few_bits(bits: int, zeros: str) -> None:
    proto, feeds = contributed("MatMulNBits", packed(bits, zeros), ["y"], WHOLE, **sizes(bits))
    agree(proto, feeds, tolerance=1e-4)
    folded = normalise(proto).graph
    assert [node.op_type for node in folded.node] == ["MatMul"]
    assert [list(tensor.dims) for tensor in folded.initializer] == [[ROWS, COLUMNS]]


def test_a_weight_of_four_bits_with_a_bias() -> None:
    inputs = {**packed(4), "g": None, "b": normal(COLUMNS)}
    agree(*contributed("MatMulNBits", inputs, ["y"], WHOLE, **sizes(4), accuracy_level=1), tolerance=1e-4)


@pytest.mark.parametrize(
    ("inputs", "constants", "attributes", "what"),
    [
        (packed(4), (), sizes(4), "weights, scales or zero points that are known on the call only"),
        (packed(4), WHOLE, {**sizes(4), "bits": 3}, "3 bits in blocks of 32"),
        (packed(4), WHOLE, {**sizes(4), "N": 5}, "192 bytes and 12 scales for a weight of 40 x 5"),
        ({**packed(4), "g": np.zeros(ROWS, np.int32)}, WHOLE, sizes(4), "g_idx"),
        (packed(4), WHOLE, {**sizes(4), "weight_prepacked": 1}, "the attribute weight_prepacked"),
    ],
)
def test_other_weights_are_refused(
    inputs: Inputs, constants: list[str], attributes: dict[str, object], what: str
) -> None:
    proto, feeds = contributed("MatMulNBits", inputs, ["y"], constants, **attributes)
    if "known on the call" in what:
        with pytest.raises(UnsupportedOperatorError, match=what):
            lower(loaded(proto))
    else:
        refused(proto, feeds, what)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    ("scale", "zero", "biased"),
    [((5,), (5,), True), ((1,), (1,), False), ((5,), None, False), ((), (), True)],
)
def test_a_product_with_a_quantised_weight(
    scale: tuple[int, ...], zero: tuple[int, ...] | None, biased: bool, signed: bool
) -> None:
    kind = np.int8 if signed else np.uint8
    points = None if zero is None else random_bytes(*zero, kind=kind)
    inputs = {"a": A, "b": random_bytes(8, 5, kind=kind), "s": scales(*scale), "z": points}
    inputs |= {"bias": normal(5)} if biased else {}
    agree(*contributed("DynamicQuantizeMatMul", inputs, ["y"], ["b"]), tolerance=1e-4)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_a_product_of_bytes(kind: type) -> None:
    data = {"a": random_bytes(2, 3, 8), "b": random_bytes(8, 5, kind=kind)}
    factors = {"as": scales(1) / 100, "bs": scales(5) / 100}
    points = {"az": random_bytes(1), "bz": random_bytes(5, kind=kind), "bias": normal(5)}
    agree(*contributed("MatMulIntegerToFloat", {**data, **factors, **points}, ["y"]), tolerance=1e-4)
    agree(*contributed("MatMulIntegerToFloat", {**data, **factors}, ["y"]), tolerance=1e-4)


def test_a_scale_for_each_column_of_the_first_is_refused() -> None:
    inputs = {"a": random_bytes(3, 8), "b": random_bytes(8, 5), "as": scales(8), "bs": scales(5)}
    refused(*contributed("MatMulIntegerToFloat", inputs, ["y"]), "a_scale of other than one number")


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_to_and_from_bytes(axis: int | None, kind: type) -> None:
    along = {None: (), 0: (2,), -1: (4,)}[axis]
    attributes = {} if axis is None else {"axis": axis}
    own = {"s": scales(*along), "z": random_bytes(*along, kind=kind)}
    agree(*contributed("QuantizeLinear", {"x": 50 * normal(2, 3, 4), **own}, ["y"], **attributes))
    agree(*contributed("DequantizeLinear", {"x": random_bytes(2, 3, 4, kind=kind), **own}, ["y"], **attributes))


def test_wider_integers_need_a_later_operator_set() -> None:
    own = {"s": scales(), "z": random_bytes(kind=np.int16)}
    proto, feeds = contributed("QuantizeLinear", {"x": 50 * normal(2, 3, 4), **own}, ["y"])
    refused(proto, feeds, "elements of int16 before operator set 21")
    proto.opset_import[0].version = 21
    agree(proto, feeds)


UNITS, DEPTH, STEPS, BATCH = 5, 7, 6, 3


def lstm(
    directions: int = 1, by_column: bool = False, kind: type = np.int8, zero: int = 0, **others: np.ndarray | None
) -> dict[str, np.ndarray | None]:
    """Inputs of a DynamicQuantizeLSTM, sums of a moderate size."""
    shape = (directions, 4 * UNITS) if by_column else (directions,)
    middle = 128 if kind is np.uint8 else 0
    weights = {
        "x": normal(STEPS, BATCH, DEPTH),
        "w": np.asarray(random_bytes(directions, DEPTH, 4 * UNITS, kind=kind)),
        "r": np.asarray(random_bytes(directions, UNITS, 4 * UNITS, kind=kind)),
        **{"b": None, "lengths": None, "h": None, "c": None, "p": None, **others},
    }
    for which in ("w", "r"):
        weights[f"{which}_scale"] = scales(*shape) * np.float32(0.004)
        weights[f"{which}_zero"] = np.full(shape, middle + zero, kind)
    return weights


QUANTISED_LSTM = ["w", "r", "b", "p", "w_scale", "w_zero", "r_scale", "r_zero"]


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        (lstm(), {}),
        (lstm(by_column=True), {"direction": "reverse"}),
        (lstm(kind=np.uint8, zero=3), {}),
        (lstm(kind=np.uint8, by_column=True, zero=-2), {}),
        (lstm(2, b=normal(2, 8 * UNITS)), {"direction": "bidirectional"}),
        (lstm(2, by_column=True, lengths=np.array([6, 2, 4], np.int32)), {"direction": "bidirectional"}),
        (lstm(h=normal(1, BATCH, UNITS), c=normal(1, BATCH, UNITS), p=normal(1, 3 * UNITS)), {"clip": 1.5}),
        (lstm(), {"activations": ["HardSigmoid", "Tanh", "Relu"], "activation_alpha": [0.3], "activation_beta": [0.4]}),
        (lstm(), {"input_forget": 1}),
    ],
)
def test_an_lstm(inputs: Inputs, attributes: dict[str, object]) -> None:
    """ONNX Runtime rounds inputs and hidden states to bytes besides."""
    outputs = ["y", "last", "memory"]
    proto, feeds = contributed("DynamicQuantizeLSTM", inputs, outputs, QUANTISED_LSTM, hidden_size=UNITS, **attributes)
    exact = run_float64(proto, feeds)
    for name, value in run_onnxruntime(proto, feeds, 1).items():
        np.testing.assert_allclose(exact[name], value, atol=0.02, err_msg=name)
    lowered = lower(loaded(proto))
    for spec, value in zip(lowered.outputs, run(lowered, feeds), strict=True):
        np.testing.assert_allclose(value, exact[spec.name], rtol=1e-5, atol=1e-6, err_msg=spec.name)
    plain = run_float64(*as_onnx_has_it(proto, feeds))
    for name, value in plain.items():
        np.testing.assert_allclose(exact[name], value, rtol=1e-6, atol=1e-6, err_msg=name)


def as_onnx_has_it(proto: ModelProto, feeds: dict[str, np.ndarray]) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """The LSTM of the same node with its weights dequantised row by row."""
    node = proto.graph.node[0]
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}
    for which in ("w", "r"):
        whole = held.pop(which).astype(np.float64)
        points, factors = (
            np.broadcast_to(held.pop(f"{which}_{part}").reshape(len(whole), -1), (len(whole), 4 * UNITS))
            for part in ("zero", "scale")
        )
        rows = [[(whole[d, :, k] - points[d, k]) * factors[d, k] for k in range(4 * UNITS)] for d in range(len(whole))]
        held[which] = np.asarray(rows, np.float32)
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    plain = helper.make_node("LSTM", list(node.input)[:8], list(node.output), name="node", **attributes)
    return graph_of([plain], feeds, list(node.output), held, opset=17), feeds


def test_an_lstm_whose_weights_are_known_on_the_call_only() -> None:
    proto, _ = contributed("DynamicQuantizeLSTM", lstm(), ["y"], QUANTISED_LSTM[1:], hidden_size=UNITS)
    with pytest.raises(UnsupportedOperatorError, match="scales or zero points that are known on the call only"):
        lower(loaded(proto))
