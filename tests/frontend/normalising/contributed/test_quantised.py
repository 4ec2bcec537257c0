"""Quantised operators of com.microsoft."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, normal, refused
from tests.frontend.normalising.graphs import normalise
from tests.frontend.running import loaded

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
