"""Inputs that become constants."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import redfuser
from redfuser.errors import UnsupportedOperatorError, UsageError
from redfuser.frontend.fixing import fix_inputs
from redfuser.parsing import parse_values
from redfuser.progress import Silent
from redfuser.verification import compare_with_oracle
from tests.frontend.running import graph_of

X = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)


def selection() -> ModelProto:
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], name="node")
    proto = graph_of([node], {"x": X, "k": (TensorProto.INT64, [1])}, [])
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, "k"]))
    proto.graph.output.append(helper.make_tensor_value_info("i", TensorProto.INT64, [3, "k"]))
    return proto


def branch() -> ModelProto:
    def body(operator: str) -> object:
        result = helper.make_tensor_value_info("r", TensorProto.FLOAT, [3, 5])
        return helper.make_graph([helper.make_node(operator, ["x"], ["r"])], operator, [], [result])

    node = helper.make_node("If", ["c"], ["y"], then_branch=body("Relu"), else_branch=body("Neg"))
    return graph_of([node], {"x": X, "c": np.array(True)}, ["y"])


def save(proto: ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_a_number_of_elements_is_fixed_and_the_artifact_verified(tmp_path: Path) -> None:
    path = save(selection(), tmp_path)
    with pytest.raises(UnsupportedOperatorError, match="TopK") as caught:
        redfuser.compile(path, output=tmp_path / "out")
    assert caught.value.hint == "make it a constant: --value k=N"
    artifact = redfuser.compile(path, output=tmp_path / "out", values={"k": [2]})
    assert [spec.name for spec in artifact.manifest.inputs] == ["x"]
    assert artifact.manifest.options.values == {"k": (2,)}
    assert artifact.load()({"x": X})["i"].tolist() == np.argsort(-X, axis=1)[:, :2].tolist()
    for output in compare_with_oracle(artifact.path, path, [({}, {"x": X})], 1, Silent()):
        assert output.accuracy.passed, str(output)


def test_parts_are_as_long_as_constants_say(tmp_path: Path) -> None:
    node = helper.make_node("Split", ["x", "long"], ["y", "rest"], name="node", axis=1)
    path = save(graph_of([node], {"x": X, "long": np.array([2, 3])}, ["y"]), tmp_path)
    with pytest.raises(UnsupportedOperatorError, match="how long the parts are must be a constant") as caught:
        redfuser.compile(path, output=tmp_path / "out")
    assert caught.value.hint == "make it a constant: --value long=N"
    module = redfuser.compile(path, output=tmp_path / "out", values={"long": [2, 3]}).load()
    np.testing.assert_array_equal(module({"x": X})["y"], X[:, :2])


def test_parts_as_long_as_an_open_dimension_need_it_fixed(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["n"], start=0, end=1),
        helper.make_node("Concat", ["n", "n"], ["long"], axis=0),
        helper.make_node("Concat", ["x", "x"], ["double"], axis=0),
        helper.make_node("Split", ["double", "long"], ["y", "rest"], name="node", axis=0),
    ]
    path = save(graph_of(nodes, {"x": (TensorProto.FLOAT, ["n", 5])}, ["y"]), tmp_path)
    with pytest.raises(UnsupportedOperatorError, match="Split") as caught:
        redfuser.compile(path, output=tmp_path / "out")
    assert caught.value.hint == "fix the symbolic dimensions: --dim n=N"
    module = redfuser.compile(path, output=tmp_path / "out", dims={"n": 3}).load()
    np.testing.assert_array_equal(module({"x": X})["y"], X)


@pytest.mark.parametrize("condition", [0, 1])
def test_a_fixed_condition_decides_a_branch(condition: int, tmp_path: Path) -> None:
    path = save(branch(), tmp_path)
    with pytest.raises(UnsupportedOperatorError, match="If") as caught:
        redfuser.compile(path, output=tmp_path / "out")
    assert caught.value.hint == "make it a constant: --value c=N"
    module = redfuser.compile(path, output=tmp_path / "out", values={"c": [condition]}).load()
    np.testing.assert_array_equal(module({"x": X})["y"], np.maximum(X, 0) if condition else -X)


def test_elements_take_the_type_and_shape_that_the_model_says() -> None:
    proto = graph_of(
        [helper.make_node("Identity", ["a"], ["y"])],
        {"a": (TensorProto.UINT8, [2, "n"]), "b": (TensorProto.FLOAT16, [])},
        ["y"],
    )
    fixed = fix_inputs(proto, {"a": [1, 2, 3, 4], "b": [0.5]})
    a, b = map(numpy_helper.to_array, fixed.graph.initializer)
    assert a.tolist() == [[1, 2], [3, 4]] and a.dtype == np.uint8
    assert b == 0.5 and b.dtype == np.float16
    assert not fixed.graph.input and len(proto.graph.input) == 2


def test_what_does_not_fit_is_refused() -> None:
    proto = graph_of([helper.make_node("Identity", ["a"], ["y"])], {"a": (TensorProto.INT8, [2])}, ["y"])
    for values, words in (
        ({"b": [1]}, "no input 'b'"),
        ({"a": [1]}, "1 elements don't fit"),
        ({"a": [1, 300]}, "not every element is a int8"),
    ):
        with pytest.raises(UsageError, match=words):
            fix_inputs(proto, values)
    open_ = graph_of([helper.make_node("Identity", ["a"], ["y"])], {"a": (TensorProto.INT8, ["n", 2, "m"])}, ["y"])
    with pytest.raises(UsageError, match=r"3 elements don't fit the shape \[n, 2, m\]") as caught:
        fix_inputs(open_, {"a": [1, 2, 3]})
    assert caught.value.hint == "a value may leave one dimension open"
    assert parse_values(["axes=0,-1", "scale=0.5", "causal=true", "empty="]) == {
        "axes": (0, -1),
        "scale": (0.5,),
        "causal": (1,),
        "empty": (),
    }
    for item in ("axes", "=1", "axes=1,x", "axes=1,,2"):
        with pytest.raises(UsageError, match="NAME=NUMBERS"):
            parse_values([item])


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "length"), [(16000, 512), (8000, 256)])
def test_a_published_model_whose_branches_depend_on_an_input(
    corpus: Path, tmp_path: Path, rate: int, length: int
) -> None:
    path = corpus / "real" / "silero_vad__silero_vad_op18_ifless.onnx"
    shapes = {"input": (1, length), "state": (2, 1, 128)}
    with pytest.raises(UnsupportedOperatorError, match="If") as caught:
        redfuser.compile(path, output=tmp_path / "out", shapes=shapes)
    assert caught.value.hint == "make it a constant: --value sr=N"
    artifact = redfuser.compile(path, output=tmp_path / "out", shapes=shapes, values={"sr": [rate]})
    generator = np.random.default_rng(0)
    feeds = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    for output in compare_with_oracle(artifact.path, path, [({}, feeds)], 1, Silent()):
        assert output.accuracy.passed, str(output)


@pytest.mark.parametrize(
    ("kind", "element", "fits"),
    [
        (TensorProto.INT64, 2**60 + 1, True),
        (TensorProto.INT64, 2**63, False),
        (TensorProto.INT64, 1.5, False),
        (TensorProto.UINT64, 2**64 - 1, True),
        (TensorProto.UINT8, -1, False),
        (TensorProto.INT4, 7, True),
        (TensorProto.INT4, 8, False),
        (TensorProto.BOOL, 2, False),
        (TensorProto.FLOAT16, 0.5, True),
        (TensorProto.FLOAT16, 1e6, False),
        (TensorProto.BFLOAT16, 0.5, True),
        (TensorProto.FLOAT8E4M3FN, 0.5, True),
        (TensorProto.FLOAT8E4M3FN, 1e6, False),
    ],
)
def test_an_element_is_what_was_given_or_refused(kind: int, element: float, fits: bool) -> None:
    proto = ModelProto()
    proto.graph.input.append(helper.make_tensor_value_info("v", kind, [1]))
    if fits:
        assert numpy_helper.to_array(fix_inputs(proto, {"v": [element]}).graph.initializer[0])[0] == element
    else:
        with pytest.raises(UsageError, match="not every element"):
            fix_inputs(proto, {"v": [element]})
