"""Normalisations whose data and scale have different types, and those that ONNX Runtime adds to ONNX's domain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper

from redfuser.errors import ModelError, UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.frontend.reading.loader import load_model
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.graphs import normalise, operators
from tests.frontend.running import graph_of, loaded, lower_and_run

RNG = np.random.default_rng(0)
DATA, SCALE, BIAS = (RNG.standard_normal(shape) * 3 for shape in ((2, 3, 8), (8,), (8,)))
PAIRS = [("float16", "float32"), ("float32", "float16"), ("float64", "float32"), ("float16", "float16")]


def norm(
    operator: str, opset: int, types: tuple[str, str], outputs: int = 1, bias: bool = False, **said: object
) -> ModelProto:
    """A model of one node between two of ONNX's own: negated data, and a negated result."""
    names = ["x", "s", "b"][: 3 if bias else 2]
    arrays = [DATA.astype(types[0]), SCALE.astype(types[1]), BIAS.astype(types[1])]
    results = ["n", "i"]
    nodes = [
        helper.make_node("Neg", ["x"], ["z"], name="first"),
        helper.make_node(operator, ["z", *names[1:]], results[:outputs], name="norm", **said),
        helper.make_node("Neg", ["n"], ["y"], name="last"),
    ]
    proto = graph_of(nodes, dict(zip(names, arrays, strict=False)), ["y", *results[1:outputs]], opset=opset)
    del proto.graph.value_info[:]  # ONNX's inference takes the result's type for the data's
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(types[1]))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", kind, DATA.shape))
    return proto


def fed(proto: ModelProto, types: tuple[str, str]) -> dict[str, np.ndarray]:
    arrays = {"x": DATA.astype(types[0]), "s": SCALE.astype(types[1]), "b": BIAS.astype(types[1])}
    return {value.name: arrays[value.name] for value in proto.graph.input}


def root_mean_square(axis: int, types: tuple[str, str], epsilon: float = 1e-5) -> np.ndarray:
    x = DATA.astype(types[0]).astype(np.float64)
    mean = (x * x).mean(tuple(range(axis % 3, 3)), keepdims=True)
    return x / np.sqrt(mean + epsilon) * SCALE.astype(types[1])


def standard(types: tuple[str, str], epsilon: float = 1e-5) -> np.ndarray:
    x = DATA.astype(types[0]).astype(np.float64)
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon)
    return normal * SCALE.astype(types[1]) - BIAS.astype(types[1])


def assert_close(got: np.ndarray, expected: np.ndarray, narrow: bool) -> None:
    np.testing.assert_allclose(
        got.astype(np.float64), expected, rtol=2e-3 if narrow else 1e-5, atol=2e-3 if narrow else 1e-5
    )


@pytest.mark.parametrize("types", PAIRS)
@pytest.mark.parametrize("said", [{}, {"axis": 1, "epsilon": 0.25}, {"stash_type": 16}])
def test_rms_norms_of_onnx(types: tuple[str, str], said: dict[str, float]) -> None:
    proto = norm("RMSNormalization", 23, types, **said)
    feeds, narrow = fed(proto, types), "float16" in types
    expected = root_mean_square(int(said.get("axis", -1)), types, said.get("epsilon", 1e-5))
    (got,) = lower_and_run(proto, feeds)
    assert got.dtype == types[1]
    assert_close(got, expected, narrow)
    np.testing.assert_allclose(run_float64(proto, feeds)["y"], expected, rtol=1e-6)
    if "stash_type" not in said:
        assert_close(run_onnxruntime(proto, feeds, 1)["y"], expected, narrow)


def test_normalised_data_are_rounded_to_their_own_type_as_onnx_says() -> None:
    types = ("float16", "float32")
    proto = norm("RMSNormalization", 23, types)
    normal = lower_and_run(
        norm("RMSNormalization", 23, ("float16", "float16")), {**fed(proto, types), "s": np.ones(8, np.float16)}
    )
    (got,) = lower_and_run(proto, fed(proto, types))
    assert np.array_equal(got, normal[0].astype(np.float32) * SCALE.astype(np.float32))


def test_rms_norms_of_one_type_are_kept() -> None:
    assert operators(normalise(norm("RMSNormalization", 23, ("float16", "float16")))) == [
        "Neg",
        "RMSNormalization",
        "Neg",
    ]
    mixed = operators(normalise(norm("RMSNormalization", 23, ("float16", "float32"))))
    assert mixed == ["Neg", "RMSNormalization", "Cast", "Mul", "Neg"]


@pytest.mark.parametrize("opset", [14, 17, 21])
@pytest.mark.parametrize("types", PAIRS)
def test_simplified_layer_norms(types: tuple[str, str], opset: int) -> None:
    proto = norm("SimplifiedLayerNormalization", opset, types)
    feeds, expected = fed(proto, types), root_mean_square(-1, types)
    (got,) = lower_and_run(proto, feeds)
    assert got.dtype == types[1]
    assert_close(got, expected, types[1] == "float16")
    np.testing.assert_allclose(run_float64(proto, feeds)["y"], expected, rtol=1e-12)
    if "float64" not in types:  # of which ONNX Runtime has no kernel
        assert_close(run_onnxruntime(proto, feeds, 1)["y"], expected, types[1] == "float16")


def test_simplified_layer_norms_of_several_axes_with_the_inverse() -> None:
    types = ("float32", "float32")
    proto = norm("SimplifiedLayerNormalization", 17, types, 2, axis=1, epsilon=0.25)
    got, inverse = lower_and_run(proto, fed(proto, types))
    assert_close(got, root_mean_square(1, types, 0.25), False)
    x = DATA.astype(np.float32).astype(np.float64)
    assert_close(inverse, 1 / np.sqrt((x * x).mean((1, 2), keepdims=True) + 0.25), False)


@pytest.mark.parametrize("opset", [9, 14, 16])
@pytest.mark.parametrize("types", PAIRS)
def test_layer_norms_from_before_onnx_had_one(types: tuple[str, str], opset: int) -> None:
    proto = norm("LayerNormalization", opset, types, bias=True)
    feeds, expected = fed(proto, types), standard(types)
    (got,) = lower_and_run(proto, feeds)
    assert got.dtype == types[1]
    assert_close(got, expected, types[1] == "float16")
    np.testing.assert_allclose(run_float64(proto, feeds)["y"], expected, rtol=1e-6, atol=1e-9)
    if "float64" not in types and opset > 9:  # set 9 lacks what ONNX Runtime's own definition of it is written in
        assert_close(run_onnxruntime(proto, feeds, 1)["y"], expected, types[1] == "float16")


def test_they_belong_to_their_node() -> None:
    lowered = lower(loaded(norm("SimplifiedLayerNormalization", 14, ("float16", "float32"))))
    assert {name.partition("/")[0] for name in lowered.operators} <= {"first", "norm", "last"}


def test_they_pass_the_check_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for operator, opset in (("SimplifiedLayerNormalization", 17), ("LayerNormalization", 14)):
        proto = norm(operator, opset, ("float16", "float32"))
        path.write_bytes(proto.SerializeToString())
        read = load_model(path).proto
        assert [node.domain for node in read.graph.node] == [""] * 3 and len(read.opset_import) == 1
    proto.graph.node[1].op_type = "SimplifiedBatchNormalization"
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ModelError, match="SimplifiedBatchNormalization"):
        load_model(path)


def test_layer_norms_of_onnx_have_one_type() -> None:
    with pytest.raises(ModelError, match="inconsistent type"):
        lower(loaded(norm("LayerNormalization", 17, ("float16", "float32"))))


def test_what_their_definition_does_not_cover_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="the attribute sideways"):
        lower(loaded(norm("SimplifiedLayerNormalization", 17, ("float32", "float32"), sideways=1)))
