"""Casts to and from 8-bit floats against ml_dtypes: every code, and every kind of number."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import redfuser
from redfuser.errors import UnsupportedOperatorError
from redfuser.progress import Silent
from redfuser.verification import compare_with_oracle
from tests.frontend.running import graph_of, single

KINDS = {
    TensorProto.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    TensorProto.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
}


def compile_and_run(proto: ModelProto, feeds: dict[str, np.ndarray], folder: Path) -> np.ndarray:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    (result,) = redfuser.compile(path, output=folder / "out").load()(feeds).values()
    return result


def numbers() -> np.ndarray:
    """Special values, halves between neighbours, and numbers of every size."""
    generator = np.random.default_rng(0)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 480, 57344, 61440, 1e30, -1e30, 1e-30], np.float32)
    codes = np.arange(128, dtype=np.uint8)
    near = [codes.view(kind).astype(np.float32) for kind in KINDS.values()]
    halves = [(values[1:] + values[:-1]) / 2 for values in near]
    sizes = np.exp2(generator.integers(-20, 20, 4000)) * generator.standard_normal(4000)
    return np.concatenate([special, *near, *halves, *(-half for half in halves), sizes.astype(np.float32)])


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_round_to_even_and_saturate(kind: int, tmp_path: Path) -> None:
    x, dtype = numbers(), KINDS[kind]
    got = compile_and_run(single("Cast", {"x": x}, to=kind, opset=19), {"x": x}, tmp_path)
    limit = float(ml_dtypes.finfo(dtype).max)
    expected = np.clip(x, -limit, limit).astype(dtype)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))
    finite = np.isfinite(x)
    assert np.array_equal(np.signbit(got[finite].astype(np.float32)), np.signbit(x[finite]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_code_is_read(kind: int, tmp_path: Path) -> None:
    x = np.arange(256, dtype=np.uint8).view(KINDS[kind])
    got = compile_and_run(single("Cast", {"x": x}, to=TensorProto.FLOAT, opset=19), {"x": x}, tmp_path)
    np.testing.assert_array_equal(got, x.astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_codes_survive_being_moved(kind: int, tmp_path: Path) -> None:
    """A transpose between two casts is fused with them: the codes then live in a buffer of the function's own."""
    nodes = [
        helper.make_node("Cast", ["x"], ["q"], to=kind),
        helper.make_node("Transpose", ["q"], ["t"]),
        helper.make_node("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
    ]
    x = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    x[0] = 0
    proto = graph_of(nodes, {"x": x}, ["y"], opset=21)
    expected = x.astype(KINDS[kind]).T.astype(np.float32)
    np.testing.assert_array_equal(compile_and_run(proto, {"x": x}, tmp_path), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_cascade_over_codes(kind: int, tmp_path: Path) -> None:
    """Softmax of dequantised scores and a product with dequantised values, zeros and subnormal codes among them."""
    nodes = [
        helper.make_node("DequantizeLinear", ["s", "scale"], ["a"]),
        helper.make_node("Softmax", ["a"], ["p"]),
        helper.make_node("DequantizeLinear", ["v", "scale"], ["b"]),
        helper.make_node("MatMul", ["p", "b"], ["y"]),
    ]
    generator = np.random.default_rng(0)
    s, v = (generator.standard_normal(shape).astype(np.float32).astype(KINDS[kind]) for shape in ((6, 40), (40, 16)))
    s[:, 3], v[5] = 0, np.full(16, 1, np.uint8).view(KINDS[kind])
    proto = graph_of(nodes, {"s": s, "v": v}, ["y"], {"scale": np.float32(0.5)}, opset=21)
    scores, values = (array.astype(np.float64) / 2 for array in (s, v))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ values
    np.testing.assert_allclose(compile_and_run(proto, {"s": s, "v": v}, tmp_path), expected, rtol=1e-5, atol=1e-6)


def test_numbers_out_of_range_saturate_or_are_refused(tmp_path: Path) -> None:
    x = np.ones(2, np.float32)
    with pytest.raises(UnsupportedOperatorError, match="saturate"):
        compile_and_run(single("Cast", {"x": x}, to=TensorProto.FLOAT8E5M2, saturate=0, opset=19), {"x": x}, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_quantisation_by_row_is_one_kernel(kind: int, tmp_path: Path) -> None:
    most = float(ml_dtypes.finfo(KINDS[kind]).max)
    nodes = [
        helper.make_node("Abs", ["x"], ["magnitude"]),
        helper.make_node("ReduceMax", ["magnitude", "axes"], ["largest"], keepdims=1),
        helper.make_node("Div", ["largest", "most"], ["scale"]),
        helper.make_node("Div", ["x", "scale"], ["scaled"]),
        helper.make_node("Cast", ["scaled"], ["codes"], to=kind),
        helper.make_node("Cast", ["codes"], ["back"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["back", "scale"], ["y"]),
    ]
    x = np.random.default_rng(0).standard_normal((9, 70)).astype(np.float32)
    constants = {"axes": np.array([-1]), "most": np.array(most, np.float32)}
    proto = graph_of(nodes, {"x": x}, ["codes", "y"], constants, opset=19)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    artifact = redfuser.compile(path, output=tmp_path / "out")
    assert artifact.report.fused == 1
    scale = np.abs(x).max(-1, keepdims=True) / np.float32(most)
    codes = (x / scale).astype(KINDS[kind])
    results = artifact.load()({"x": x})
    np.testing.assert_array_equal(results["codes"].astype(np.float32), codes.astype(np.float32))
    np.testing.assert_array_equal(results["y"], codes.astype(np.float32) * scale)
    for output in compare_with_oracle(artifact.path, path, [({}, {"x": x})], 1, Silent()):
        assert output.accuracy.passed, str(output)
