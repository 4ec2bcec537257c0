"""Quantisation of every kind against ONNX's reference implementation, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import redfuser
from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.oracle.run import run_onnxruntime
from tests.frontend.running import graph_of, loaded, lower_and_run, single

RNG = np.random.default_rng(0)
X = (RNG.standard_normal((4, 6)) * 100).astype(np.float32)


def check(proto: ModelProto, feeds: dict[str, np.ndarray]) -> None:
    """Every output equals the reference's, narrow types in the whole bytes that hold them."""
    expected = ReferenceEvaluator(proto).run(None, feeds)
    for got, answer in zip(lower_and_run(proto, feeds), expected, strict=True):
        if answer.dtype.kind == "f":
            np.testing.assert_allclose(got, answer, rtol=1e-6)
        else:
            np.testing.assert_array_equal(got, answer.astype(got.dtype))


@pytest.mark.parametrize("kind", ["INT8", "UINT8", "INT16", "UINT16", "INT4", "UINT4", "INT2", "UINT2"])
def test_integers_of_every_width_saturate(kind: str) -> None:
    zero = helper.make_tensor("zero", getattr(TensorProto, kind), [], [1])
    proto = graph_of([helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])], {"x": X}, ["y"], opset=25)
    proto.graph.initializer.extend([numpy_helper.from_array(np.float32(1.5), "scale"), zero])
    check(proto, {"x": X})


@pytest.mark.parametrize("kind", ["INT4", "UINT4", "INT2", "UINT2"])
def test_casts_to_narrow_integers_keep_the_low_bits(kind: str) -> None:
    x = np.arange(-20, 20, dtype=np.int32)
    proto = single("Cast", {"x": x}, opset=25, to=getattr(TensorProto, kind))
    check(proto, {"x": x})
    numbers = np.array([0.9, 1.5, -1.9, 0.0], np.float32)
    if kind.startswith("INT"):
        check(single("Cast", {"x": numbers}, opset=25, to=getattr(TensorProto, kind)), {"x": numbers})


def test_casts_to_four_bit_floats_round_to_even() -> None:
    x = np.array([0.25, 0.75, 1.25, 2.5, 3.5, 5, 7, 100, -0.75, -5, 0.0], np.float32)
    check(single("Cast", {"x": x}, opset=23, to=TensorProto.FLOAT4E2M1), {"x": x})


@pytest.mark.parametrize("kind", ["uint8", "uint16"])
def test_a_nan_becomes_the_least_number_as_in_onnx_runtime(kind: str, tmp_path: Path) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3] * 9, np.float32)
    proto = single("QuantizeLinear", {"x": x}, {"s": np.float32(0.5), "z": np.dtype(kind).type(7)}, opset=21)
    onnx.save(proto, tmp_path / "model.onnx")
    redfuser.compile(tmp_path / "model.onnx", output=tmp_path / "out")
    got = redfuser.load(tmp_path / "out")({"x": x})
    np.testing.assert_array_equal(got["y0"], run_onnxruntime(proto, {"x": x}, 1)["y0"])


def test_halves_round_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5], np.float32)
    check(single("QuantizeLinear", {"x": x}, {"s": np.float32(1), "z": np.int8(0)}, opset=21), {"x": x})


def test_the_quotient_is_rounded_to_the_type_of_the_scale() -> None:
    x = (RNG.standard_normal(4000) * 30).astype(np.float16)
    scale = np.float16(0.137)
    got = lower_and_run(single("QuantizeLinear", {"x": x}, {"s": scale, "z": np.int8(3)}, opset=21), {"x": x})[0]
    expected = np.clip(np.rint((x / scale).astype(np.float32)) + 3, -128, 127).astype(np.int8)
    np.testing.assert_array_equal(got, expected)
    assert (expected != np.clip(np.rint(x.astype(np.float32) / np.float32(scale)) + 3, -128, 127)).any()


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_by_axis_and_by_block(axis: int) -> None:
    extent = X.shape[axis]
    by_axis = {"s": RNG.uniform(1, 2, extent).astype(np.float32), "z": np.arange(extent, dtype=np.uint8)}
    check(single("QuantizeLinear", {"x": X}, by_axis, opset=21, axis=axis), {"x": X})
    shape = list(X.shape)
    shape[axis] //= 2
    by_block = {"s": RNG.uniform(1, 2, shape).astype(np.float32), "z": np.ones(shape, np.int8)}
    check(single("QuantizeLinear", {"x": X}, by_block, opset=21, axis=axis, block_size=2), {"x": X})
    codes = RNG.integers(-128, 128, X.shape).astype(np.int8)
    check(single("DequantizeLinear", {"x": codes}, by_block, opset=21, axis=axis, block_size=2), {"x": codes})


@pytest.mark.parametrize("kind", ["INT8", "UINT8", "INT16", "INT32", "INT4", "UINT4"])
@pytest.mark.parametrize(
    ("axis", "block", "scales"), [(0, 0, ()), (0, 0, (1,)), (1, 0, (6,)), (-2, 0, (4,)), (1, 4, (4, 2)), (0, 2, (2, 6))]
)
def test_a_constant_is_dequantised_at_once(kind: str, axis: int, block: int, scales: tuple[int, ...]) -> None:
    """Not on every call: nothing but the sum is left to compute."""
    type_ = getattr(TensorProto, kind)
    low = 0 if kind.startswith("U") else -7
    data = helper.make_tensor("w", type_, (4, 6), RNG.integers(low, 8, 24))
    zeros = [helper.make_tensor("z", type_, scales, RNG.integers(0, 4, scales).reshape(-1))] * (kind != "INT32")
    scale = numpy_helper.from_array(np.asarray(RNG.random(scales) + 0.1, np.float32), "s")
    sizes = {"block_size": block} if block else {}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"][: 2 + len(zeros)], ["d"], axis=axis, **sizes),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    proto = graph_of(nodes, {"x": X}, ["y"], opset=25)
    proto.graph.initializer.extend([data, scale, *zeros])
    check(proto, {"x": X})
    main = lower(loaded(proto)).module["main"]
    assert sum(len(block.bindings) for block in main.body.blocks) == 1


def test_packed_weights_are_unpacked() -> None:
    weights = RNG.integers(-8, 8, (6, 3))
    tensor = helper.make_tensor("w", TensorProto.INT4, [6, 3], weights.reshape(-1).tolist())
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=2),
        helper.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    proto = graph_of(nodes, {"x": X}, [], opset=21)
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3]))
    scales = RNG.uniform(1, 2, (3, 3)).astype(np.float32)
    proto.graph.initializer.extend([tensor, numpy_helper.from_array(scales, "s")])
    x, w = X.astype(np.float64), weights * np.repeat(scales, 2, 0).astype(np.float64)
    # A sum may cancel: its error is a part of what is added up.
    assert (np.abs(lower_and_run(proto, {"x": X})[0] - x @ w) <= 1e-6 * (np.abs(x) @ np.abs(w))).all()


def test_products_of_quantised_matrices() -> None:
    a, b = RNG.integers(0, 256, (2, 4, 6)).astype(np.uint8), RNG.integers(-128, 128, (6, 3)).astype(np.int8)
    check(single("MatMulInteger", {"a": a, "b": b}, {"za": np.uint8(7), "zb": np.int8(-3)}, opset=21), {"a": a, "b": b})
    rows = {"za": np.arange(4, dtype=np.uint8)}
    flat = {"a": a[0], "b": b}
    got = lower_and_run(single("MatMulInteger", flat, rows, opset=21), flat)[0]
    np.testing.assert_array_equal(got, (a[0].astype(np.int32) - np.arange(4)[:, None]) @ b.astype(np.int32))


def test_products_that_differ_in_zero_points_share_their_functions() -> None:
    """Both factors have batches, so that the zero points are taken off them and not off the sums."""
    a, b = RNG.integers(0, 256, (2, 4, 6)).astype(np.uint8), RNG.integers(0, 256, (2, 6, 3)).astype(np.uint8)
    zeros = {"za": np.uint8(7), "zb": np.uint8(9), "zc": np.uint8(11), "zd": np.uint8(13)}

    def model(*products: tuple[str, str]) -> ModelProto:
        names = [f"y{n}" for n in range(len(products))]
        pairs = zip(products, names, strict=True)
        nodes = [helper.make_node("MatMulInteger", ["a", "b", *zero], [name]) for zero, name in pairs]
        constants = {name: np.asarray(value) for name, value in zeros.items()}
        return graph_of(nodes, {"a": a, "b": b}, names, constants, opset=21)

    one, two = model(("za", "zb")), model(("za", "zb"), ("zc", "zd"))
    check(two, {"a": a, "b": b})
    functions = [len(lower(loaded(proto)).module.functions) for proto in (one, two)]
    assert functions[0] == functions[1]


def test_a_product_of_quantised_vectors_is_a_scalar() -> None:
    a, b = np.arange(8, dtype=np.uint8) * 20, np.arange(8, dtype=np.uint8)
    scales = {"sa": np.float32(0.1), "sb": np.float32(0.2), "sy": np.float32(5)}
    constants = {**scales, "za": np.uint8(3), "b": b, "zb": np.uint8(4), "zy": np.uint8(2)}
    product = helper.make_node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["y"])
    check(
        graph_of([product], {"a": a}, ["y"], {name: np.asarray(value) for name, value in constants.items()}), {"a": a}
    )


def test_what_is_not_supported_is_refused() -> None:
    constants = {"s": np.float32(1)}
    refused = {
        "saturate": single(
            "QuantizeLinear", {"x": X}, constants, opset=21, output_dtype=TensorProto.FLOAT8E5M2, saturate=0
        ),
        "float8_e4m3fnuz": single(
            "QuantizeLinear", {"x": X}, constants, opset=21, output_dtype=TensorProto.FLOAT8E4M3FNUZ
        ),
        "saturate = 0": single("Cast", {"x": X}, opset=21, to=TensorProto.FLOAT8E4M3FN, saturate=0),
    }
    for words, proto in refused.items():
        with pytest.raises(UnsupportedOperatorError, match=words):
            lower(loaded(proto))
