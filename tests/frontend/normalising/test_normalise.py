"""ONNX -> ONNX: each step where it acts and where it must not."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from redfuser.errors import ModelError
from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.folding import FOLD_BYTES
from redfuser.frontend.normalising.normalise import OPSET
from redfuser.frontend.normalising.normalise import normalise as use_up
from redfuser.oracle import run_float64
from tests.frontend.running import graph_of, single

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def normalise(proto: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(proto)
    return use_up(copy)


def operators(proto: ModelProto) -> list[str]:
    return [node.op_type for node in proto.graph.node]


def constants(proto: ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}


def node(operator: str, inputs: list[str], output: str, name: str = "", **attributes: object) -> helper.NodeProto:
    return helper.make_node(operator, inputs, [output], name=name, **attributes)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [1, 8, 12])
def test_old_operator_sets_are_upgraded_and_mean_the_same(operator: str, opset: int) -> None:
    """These flattened their input once."""
    proto = single(operator, {"x": np.ones((2, 3, 4), np.float32)}, opset=opset, axis=1)
    result = normalise(proto)
    assert opset_of(result) == OPSET
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)}
    flat = feeds["x"].reshape(2, 12)
    expected = run_float64(single(operator, {"x": flat}, axis=1), {"x": flat})["y0"].reshape(2, 3, 4)
    for each in (proto, result):
        np.testing.assert_allclose(run_float64(each, feeds)["y0"], expected, rtol=1e-12)


def test_new_operator_sets_are_kept() -> None:
    assert opset_of(normalise(single("Relu", {"x": X}, opset=21))) == 21


def test_names_are_kept_or_made_unique() -> None:
    nodes = [node("Relu", ["x"], "a", "same"), node("Abs", ["a"], "b", "same"), node("Neg", ["b"], "c", "Exp_3")]
    proto = graph_of([*nodes, node("Exp", ["c"], "y")], {"x": X}, ["y"])
    assert [each.name for each in normalise(proto).graph.node] == ["same", "same_1", "Exp_3", "Exp_3_1"]


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


def test_shapes_fold_through_everything_that_depends_on_them() -> None:
    nodes = [
        node("Shape", ["x"], "shape"),
        node("Gather", ["shape", "zero"], "rows"),
        node("Concat", ["rows", "minus"], "target", axis=0),
        node("Reshape", ["x", "target"], "flat"),
        node("Relu", ["flat"], "y"),
    ]
    values = {"zero": np.array([0]), "minus": np.array([-1])}
    result = normalise(graph_of(nodes, {"x": np.zeros((2, 3, 4), np.float32)}, ["y"], values))
    assert operators(result) == ["Reshape", "Relu"]
    assert constants(result)["target"].tolist() == [2, -1]


def test_part_of_a_shape_and_sizes() -> None:
    nodes = [node("Shape", ["x"], "part", start=-2), node("Size", ["x"], "size"), node("Add", ["part", "size"], "y")]
    result = normalise(graph_of(nodes, {"x": np.zeros((2, 3, 4), np.float32)}, ["y"]))
    assert operators(result) == [] and constants(result)["y"].tolist() == [27, 28]


def test_large_constants_are_not_made() -> None:
    count = FOLD_BYTES // 4 + 1
    small, large = np.array([count - 1]), np.array([count])
    for shape, expected in ((small, []), (large, ["Expand"])):
        proto = graph_of(
            [node("Expand", ["one", "shape"], "y")], {}, ["y"], {"one": np.ones(1, np.float32), "shape": shape}
        )
        assert operators(normalise(proto)) == expected


def test_a_shape_that_would_fill_the_memory_is_not_evaluated() -> None:
    nodes = [node("ConstantOfShape", ["shape"], "a"), node("ReduceSum", ["a"], "y", keepdims=0)]
    result = normalise(graph_of(nodes, {}, ["y"], {"shape": np.array([1 << 20, 1 << 20])}))
    assert operators(result) == ["ConstantOfShape", "ReduceSum"]
    with pytest.raises(ModelError, match="'a' has the shape"):
        normalise(graph_of(nodes, {}, ["y"], {"shape": np.array([1 << 40, 1 << 20])}))


def test_stored_weights_stay_quantised_and_random_numbers_random() -> None:
    weights = {"w": np.ones(4, np.int8), "s": np.array(0.5, np.float32)}
    assert operators(normalise(graph_of([node("DequantizeLinear", ["w", "s"], "y")], {}, ["y"], weights))) == [
        "DequantizeLinear"
    ]
    assert operators(normalise(graph_of([node("RandomNormal", [], "y", shape=[2])], {}, ["y"]))) == ["RandomNormal"]


def test_reductions_over_nothing_are_constants() -> None:
    proto = single("ReduceMax", {"x": np.zeros((2, 0), np.float32)}, {"axes": np.array([1])})
    result = normalise(proto)
    assert operators(result) == [] and constants(result)["y0"].tolist() == [[-np.inf], [-np.inf]]


@pytest.mark.parametrize(
    ("copy", "values"),
    [
        (node("Identity", ["x"], "a"), {}),
        (node("Dropout", ["x"], "a"), {}),
        (node("Cast", ["x"], "a", to=TensorProto.FLOAT), {}),
        (node("Reshape", ["x", "s"], "a"), {"s": np.array([2, 3])}),
        (node("Expand", ["x", "s"], "a"), {"s": np.array([1, 3])}),
        (node("Transpose", ["x"], "a", perm=[0, 1]), {}),
        (node("Concat", ["x"], "a", axis=0), {}),
    ],
)
def test_copies_are_dropped(copy: helper.NodeProto, values: dict[str, np.ndarray]) -> None:
    result = normalise(graph_of([copy, node("Relu", ["a"], "y")], {"x": X}, ["y"], values))
    assert operators(result) == ["Relu"] and result.graph.node[0].input[0] == "x"


@pytest.mark.parametrize(
    ("kept", "values"),
    [
        (node("Cast", ["x"], "a", to=TensorProto.FLOAT16), {}),
        (node("Reshape", ["x", "s"], "a"), {"s": np.array([3, 2])}),
        (node("Expand", ["x", "s"], "a"), {"s": np.array([4, 2, 3])}),
        (node("Transpose", ["x"], "a"), {}),
        (node("Concat", ["x", "x"], "a", axis=0), {}),
    ],
)
def test_what_changes_something_is_kept(kept: helper.NodeProto, values: dict[str, np.ndarray]) -> None:
    result = normalise(graph_of([kept, node("Relu", ["a"], "y")], {"x": X}, ["y"], values))
    assert operators(result) == [kept.op_type, "Relu"]


def test_an_output_that_is_a_copy_keeps_its_name() -> None:
    result = normalise(graph_of([node("Identity", ["x"], "y")], {"x": X}, ["y"]))
    assert operators(result) == ["Identity"] and result.graph.output[0].name == "y"


def test_unused_nodes_and_weights_go_and_inputs_stay() -> None:
    nodes = [node("Relu", ["x"], "y"), node("Add", ["z", "w"], "unused")]
    result = normalise(graph_of(nodes, {"x": X, "z": X}, ["y"], {"w": X}))
    assert operators(result) == ["Relu"] and not result.graph.initializer
    assert [value.name for value in result.graph.input] == ["x", "z"]


@pytest.mark.parametrize(
    ("operator", "indices", "expected", "attributes"),
    [
        ("Gather", [-1, 0], [2, 0], {"axis": 1}),
        ("Gather", [1, 0], [1, 0], {"axis": -1}),
        ("GatherElements", [[-1], [1]], [[2], [1]], {"axis": 1}),
        ("GatherND", [[-1, -1], [0, -3]], [[1, 2], [0, 0]], {}),
        ("GatherND", [[-1], [0]], [[2], [0]], {"batch_dims": 1}),
    ],
)
def test_negative_indices_become_positive(
    operator: str, indices: list[int], expected: list[int], attributes: dict[str, int]
) -> None:
    proto = single(operator, {"x": X}, {"indices": np.array(indices)}, **attributes)
    result = normalise(proto)
    assert constants(result)[result.graph.node[0].input[1]].tolist() == expected
    assert np.array_equal(run_float64(proto, {"x": X})["y0"], run_float64(result, {"x": X})["y0"])


@pytest.mark.parametrize("operator", ["Gather", "GatherElements"])
def test_indices_outside_the_data_are_refused(operator: str) -> None:
    for index in (3, -4):
        with pytest.raises(ModelError, match="'node'"):
            normalise(single(operator, {"x": X}, {"indices": np.full((2, 1), index)}, axis=1))


def branches(first: str, second: str) -> helper.NodeProto:
    """An If whose branches use the same inner name."""
    graphs = [
        helper.make_graph(
            [node("Abs", ["x"], "inner", "n"), node(operator, ["inner"], "r")],
            operator,
            [],
            [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
        )
        for operator in (first, second)
    ]
    return helper.make_node("If", ["c"], ["y"], name="if", then_branch=graphs[0], else_branch=graphs[1])


def test_an_if_with_a_known_condition_becomes_its_branch() -> None:
    for condition, taken in ((True, "Exp"), (False, "Neg")):
        result = normalise(graph_of([branches("Exp", "Neg")], {"x": X}, ["y"], {"c": np.array(condition)}))
        assert operators(result)[:2] == ["Abs", taken]
        assert result.graph.node[0].name == "if/n"
    kept = normalise(graph_of([branches("Exp", "Neg")], {"x": X, "c": np.array(True)}, ["y"]))
    assert operators(kept) == ["If"]


def test_outputs_of_an_if_may_have_no_name() -> None:
    both = branches("Exp", "Neg")
    both.output.insert(0, "")
    for attribute in both.attribute:
        attribute.g.output.insert(0, helper.make_tensor_value_info("inner", TensorProto.FLOAT, None))
    result = normalise(graph_of([both], {"x": X}, ["y"], {"c": np.array(True)}))
    assert operators(result)[:2] == ["Abs", "Exp"]


def branching(nodes: list[helper.NodeProto], output: str, name: str = "") -> helper.NodeProto:
    """An If on the constant ``c`` whose branches are these nodes."""
    result = [helper.make_tensor_value_info(output, TensorProto.FLOAT, X.shape)]
    return node(
        "If",
        ["c"],
        f"{output}_out",
        name,
        **{f"{which}_branch": helper.make_graph(nodes, which, [], result) for which in ("then", "else")},
    )


@pytest.mark.parametrize("name", ["", "same"])
def test_branches_within_a_branch_keep_their_values_apart(name: str) -> None:
    inner = [branching([node(operator, ["x"], "r")], "r", name) for operator in ("Exp", "Neg")]
    inner[1].output[0] = "q"
    outer = branching([*inner, node("Sub", ["r_out", "q"], "s")], "s")
    proto = graph_of([outer], {"x": X}, ["s_out"], {"c": np.array(True)})
    result = normalise(proto)
    assert operators(result) == ["Exp", "Neg", "Sub", "Identity"]
    np.testing.assert_allclose(run_float64(result, {"x": X})["s_out"], np.exp(X.astype(np.float64)) + X)


@pytest.mark.parametrize("taken_first", [True, False])
def test_names_written_into_the_graph_are_none_of_the_model_s(taken_first: bool) -> None:
    for written, taken in (
        (branching([node("Neg", ["x"], "r")], "r", "n"), "n/r"),
        (node("Swish", ["x"], "r_out", "n"), "n/Function_SwishV24_alpha"),
    ):
        nodes = [node("Exp", ["x"], taken), written]
        nodes = [*(nodes if taken_first else nodes[::-1]), node("Sub", ["r_out", taken], "y")]
        proto = graph_of(nodes, {"x": X}, ["y"], {"c": np.array(True)}, opset=24)
        expected = run_float64(proto, {"x": X})["y"]
        np.testing.assert_allclose(run_float64(normalise(proto), {"x": X})["y"], expected, rtol=1e-6)


def test_new_indices_get_a_name_of_their_own() -> None:
    nodes = [
        node("Exp", ["x"], "g/indices"),
        node("Gather", ["x", "i"], "z", "g"),
        node("Add", ["z", "g/indices"], "y"),
    ]
    result = normalise(graph_of(nodes, {"x": X}, ["y"], {"i": np.array([-1, 0])}))
    np.testing.assert_allclose(run_float64(result, {"x": X})["y"], np.exp(X.astype(np.float64)) + X[::-1])


def test_operators_that_onnx_defines_by_others_are_expanded() -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    ones = np.ones(4, np.float32)
    proto = single("GroupNormalization", {"x": x}, {"s": ones, "b": ones}, opset=21, num_groups=2)
    result = normalise(proto)
    assert "GroupNormalization" not in operators(result)
    assert {each.name.partition("/")[0] for each in result.graph.node if each.op_type != "Identity"} == {"node"}
    assert np.allclose(run_float64(proto, {"x": x})["y0"], run_float64(result, {"x": x})["y0"])


def test_contradictions_name_the_node() -> None:
    with pytest.raises(ModelError, match=r"'node' \(MatMul\) doesn't fit"):
        normalise(single("MatMul", {"x": X, "z": X}))
    proto = single("Relu", {"x": X})
    proto.graph.node[0].input[0] = "nowhere"
    with pytest.raises(ModelError, match="reads 'nowhere', which nothing defines"):
        normalise(proto)


def test_sparse_weights_are_refused() -> None:
    proto = graph_of([node("Relu", ["w"], "y")], {}, ["y"])
    values, indices = (
        numpy_helper.from_array(np.ones(1, np.float32), "w"),
        numpy_helper.from_array(np.zeros(1, int), "i"),
    )
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    with pytest.raises(ModelError, match="'w' is sparse"):
        normalise(proto)


@pytest.mark.parametrize("opset", [18, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_group_norms_that_onnx_has_withdrawn(opset: int, dtype: type) -> None:
    """One scale for each group; from set 21 on there is one for each channel, and another operator."""
    x = (np.random.default_rng(0).standard_normal((2, 6, 4)) * 3).astype(dtype)
    weights = {name: np.arange(1, 4).astype(dtype) for name in ("scale", "bias")}
    proto = ModelProto()
    proto.CopyFrom(single("Relu", {"x": x}, opset=opset))
    proto.graph.node[0].CopyFrom(node("GroupNormalization", ["x", *weights], "y0", num_groups=3, epsilon=0.25))
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    result = normalise(proto)
    assert "GroupNormalization" not in operators(result) and result.graph.output[0].name == "y0"
    groups = x.astype(np.float64).reshape(2, 3, 8)
    normal = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 0.25)
    column = np.arange(1, 4).reshape(3, 1)
    expected = (normal * column + column).reshape(x.shape)
    for each in (proto, result):
        np.testing.assert_allclose(run_float64(each, {"x": x})["y0"], expected, rtol=1e-12)


def test_group_norms_of_today_are_expanded_as_onnx_defines_them() -> None:
    x = np.random.default_rng(0).standard_normal((2, 6, 4)).astype(np.float32)
    weights = {name: np.arange(6, dtype=np.float32) for name in ("scale", "bias")}
    proto = single("GroupNormalization", {"x": x}, weights, opset=21, num_groups=3)
    expected = run_float64(proto, {"x": x})["y0"]
    np.testing.assert_allclose(run_float64(normalise(proto), {"x": x})["y0"], expected, rtol=1e-6, atol=1e-9)
