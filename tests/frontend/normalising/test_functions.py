"""Functions of a model, whatever operator set they rely on."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper

from redfuser.errors import ModelError
from redfuser.frontend.model import opset_of
from redfuser.oracle.run import run_float64
from tests.frontend.normalising.graphs import X, node, normalise, operators
from tests.frontend.running import graph_of


def test_functions_are_inlined() -> None:
    proto = graph_of([helper.make_node("F", ["x"], ["y"], domain="own")], {"x": X}, ["y"], domains={"own": 1})
    inner = [node("Relu", ["a"], "b"), node("Neg", ["b"], "c")]
    proto.functions.append(helper.make_function("own", "F", ["a"], ["c"], inner, [helper.make_opsetid("", 18)]))
    assert operators(normalise(proto)) == ["Relu", "Neg"]


def test_functions_of_old_operator_sets_keep_their_meaning() -> None:
    """Softmax flattened its input before set 13."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    proto = graph_of([helper.make_node("F", ["x"], ["y"], domain="own")], {"x": x}, ["y"], opset=11, domains={"own": 1})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape))
    old = [helper.make_opsetid("", 11)]
    inner = [helper.make_node("Softmax", ["a"], ["b"], axis=1)]
    proto.functions.append(helper.make_function("own", "F", ["a"], ["b"], inner, old))
    flat = np.exp(x.reshape(2, 12).astype(np.float64))
    expected = (flat / flat.sum(-1, keepdims=True)).reshape(x.shape)
    np.testing.assert_allclose(run_float64(normalise(proto), {"x": x})["y"], expected, rtol=1e-12)


def calling(x: np.ndarray, own: int, opset: int, body: list[NodeProto], **said: int) -> ModelProto:
    """A model of one call of a function, which hands ``said`` to it."""
    nodes = [helper.make_node("F", ["x"], ["y"], domain="own", **said)]
    proto = graph_of(nodes, {"x": x}, ["y"], opset=opset, domains={"own": 1})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape))
    imports = [helper.make_opsetid("", own)]
    proto.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, imports, attributes=list(said)))
    return proto


@pytest.mark.parametrize(("own", "opset"), [(11, 11), (7, 11), (12, 18), (11, 13), (13, 11), (18, 18)])
@pytest.mark.parametrize("axis", ["said", "handed over", "left out"])
def test_hardmax_of_functions_flattens_by_the_function_s_own_operator_set(own: int, opset: int, axis: str) -> None:
    x = np.random.default_rng(0).permutation(24).reshape(2, 3, 4).astype(np.float32)
    inner = helper.make_node("Hardmax", ["a"], ["b"], **({"axis": 1} if axis == "said" else {}))
    if axis == "handed over":
        inner.attribute.append(AttributeProto(name="axis", ref_attr_name="where", type=AttributeProto.INT))
    proto = calling(x, own, opset, [inner], **({"where": 1} if axis == "handed over" else {}))
    along = (2 if axis == "left out" else 1) if own >= 13 else None
    rows = x.reshape(2, 12) if along is None else x
    expected = (rows == rows.max(along or 1, keepdims=True)).reshape(x.shape)
    assert np.array_equal(run_float64(proto, {"x": x})["y"], expected)
    assert np.array_equal(run_float64(normalise(proto), {"x": x})["y"], expected)


@pytest.mark.parametrize("in_function", [True, False])
def test_hardmax_in_branches(in_function: bool) -> None:
    x = np.random.default_rng(0).permutation(24).reshape(2, 3, 4).astype(np.float32)
    source, target = ("a", "b") if in_function else ("x", "y")
    branches = {}
    for place, name in enumerate(("then_branch", "else_branch")):
        inner = helper.make_node("Hardmax", [source], [f"r{place}"], axis=1)
        result = helper.make_tensor_value_info(f"r{place}", TensorProto.FLOAT, x.shape)
        branches[name] = helper.make_graph([inner], name, [], [result])
    always = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, [], [True]))
    body = [always, helper.make_node("If", ["c"], [target], **branches)]
    proto = calling(x, 11, 18, body) if in_function else graph_of(body, {"x": x}, ["y"], opset=11)
    flat = x.reshape(2, 12)
    expected = (flat == flat.max(1, keepdims=True)).reshape(x.shape)
    assert np.array_equal(run_float64(normalise(proto), {"x": x})["y"], expected)


@pytest.mark.parametrize(("own", "model"), [(11, 18), (20, 18)])
def test_functions_of_other_operator_sets_than_the_model_s(own: int, model: int) -> None:
    nodes = [helper.make_node("F", ["x"], ["f"], domain="own")]
    proto = graph_of(nodes, {"x": X}, ["f"], opset=model, domains={"own": 1})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("f", TensorProto.FLOAT, X.shape))
    body = [node("Gelu" if own == 20 else "Relu", ["a"], "b")]
    proto.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, [helper.make_opsetid("", own)]))
    result = normalise(proto)
    assert (opset_of(result), operators(result)) == (max(own, model), [body[0].op_type])


@pytest.mark.parametrize(("operator", "own"), [("Pad", 1), ("Loop", 11)])
def test_a_function_that_cannot_be_brought_to_the_model_s_operator_set_is_refused(operator: str, own: int) -> None:
    proto = graph_of([helper.make_node("F", ["x"], ["y"], domain="own")], {"x": X}, ["y"], domains={"own": 1})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, X.shape))
    body = [node(operator, ["a"], "b")]
    proto.functions.append(helper.make_function("own", "F", ["a"], ["b"], body, [helper.make_opsetid("", own)]))
    with pytest.raises(ModelError, match="function of the model can't be converted to the model's operator set 18"):
        normalise(proto)
