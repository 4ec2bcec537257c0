"""Products between DequantizeLinear nodes: of bytes where they can be, untouched elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto

from redfuser.frontend import lower
from redfuser.oracle.run import run_float64
from tests.frontend.normalising.graphs import node, normalise, operators
from tests.frontend.running import graph_of, loaded, run

RNG = np.random.default_rng(0)
ROWS, DEPTH, COLUMNS = 5, 40, 24
A = RNG.integers(0, 256, (2, ROWS, DEPTH)).astype(np.uint8)
W = RNG.integers(-128, 128, (DEPTH, COLUMNS)).astype(np.int8)
SCALES = (RNG.random(COLUMNS) * 0.1).astype(np.float32)
WHOLE = {"sw": np.float32(0.03), "zw": np.int8(5)}
BY_COLUMN = {"sw": SCALES, "zw": RNG.integers(-9, 9, COLUMNS).astype(np.int8)}


def left(*, zero: bool = True) -> NodeProto:
    return node("DequantizeLinear", ["a", "sa", *(["za"] if zero else [])], "real_a")


def right(**attributes: int) -> NodeProto:
    return node("DequantizeLinear", ["w", "sw", "zw"], "real_w", **attributes)


def model(nodes: list[NodeProto], a: np.ndarray, constants: Mapping[str, np.ndarray], opset: int = 18) -> ModelProto:
    own = {"w": W, "sa": np.float32(0.02), "za": np.uint8(117), **WHOLE, **constants}
    return graph_of(nodes, {"a": a}, ["y"], {name: np.asarray(value) for name, value in own.items()}, opset)


def check(proto: ModelProto, feeds: Mapping[str, np.ndarray]) -> None:
    """Nearer to float64 than float32 would be as written: sums are exact."""
    (got,) = run(lower(loaded(proto)), feeds)
    np.testing.assert_allclose(got, run_float64(proto, feeds)["y"], rtol=3e-7, atol=1e-6)


@pytest.mark.parametrize("constants", [WHOLE, BY_COLUMN, {"za": np.uint8(0)}])
def test_a_matrix_product(constants: Mapping[str, np.ndarray]) -> None:
    proto = model([left(), right(axis=1), node("MatMul", ["real_a", "real_w"], "y", "product")], A, constants)
    found = operators(normalise(proto))
    assert "MatMulInteger" in found and "MatMul" not in found and "DequantizeLinear" not in found
    check(proto, {"a": A})


@pytest.mark.parametrize("turned", [0, 1])
def test_a_product_with_a_bias(turned: int) -> None:
    constants = {**BY_COLUMN, "w": W.T.copy() if turned else W, "bias": np.linspace(-1, 1, COLUMNS, dtype=np.float32)}
    product = node("Gemm", ["real_a", "real_w", "bias"], "y", "product", transB=turned)
    proto = model([left(), right(axis=1 - turned), product], A[0], constants)
    assert "MatMulInteger" in operators(normalise(proto))
    check(proto, {"a": A[0]})


def test_bytes_that_something_else_reads_too() -> None:
    nodes = [left(), right(), node("MatMul", ["real_a", "real_w"], "p"), node("ReduceMax", ["real_a"], "m", keepdims=0)]
    proto = model([*nodes, node("Add", ["p", "m"], "y")], A, {})
    assert {"MatMulInteger", "DequantizeLinear"} <= set(operators(normalise(proto)))
    check(proto, {"a": A})


PLAIN = node("MatMul", ["real_a", "real_w"], "y", "product")


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([left(), right(axis=0), PLAIN], {"sw": SCALES[:1].repeat(DEPTH), "zw": np.zeros(DEPTH, np.int8)}),  # by rows
        ([left(), right(), PLAIN], {"w": W[None], **WHOLE}),  # no matrix
        ([left(), right(), PLAIN], {"w": W.astype(np.int16), "zw": np.int16(5)}),
        ([left(), right(), PLAIN], {"sa": SCALES[:1].repeat(ROWS), "za": np.zeros(ROWS, np.uint8)}),
        ([left(zero=False), right(), PLAIN], {}),  # bytes of a type that nothing says
        ([left(), right(), node("Gemm", ["real_a", "real_w"], "y", alpha=0.5)], {}),
        ([left(), right(), node("Gemm", ["real_a", "real_w"], "y", transA=1)], {"w": W[:ROWS]}),
        ([left(), right(), node("Identity", ["real_a"], "b"), node("MatMul", ["b", "real_w"], "y")], {}),
    ],
)
def test_others_stay(nodes: list[NodeProto], constants: Mapping[str, np.ndarray]) -> None:
    a = A[0] if nodes[-1].op_type == "Gemm" else A
    assert "MatMulInteger" not in operators(normalise(model(nodes, a, constants, 21)))


def test_a_sum_that_int32_may_not_hold_stays() -> None:
    deep = 33_026
    proto = model([left(), right(), PLAIN], np.zeros((1, deep), np.uint8), {"w": np.zeros((deep, 1), np.int8)})
    assert "MatMulInteger" not in operators(normalise(proto))


def test_scales_in_half_precision_stay() -> None:
    half = {"sa": np.float16(0.02), "sw": np.float16(0.03)}
    proto = model([left(), right(), PLAIN], A, half, 21)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    assert "MatMulInteger" not in operators(normalise(proto))
