"""ONNX to ONNX: operator sets, indices, what is unused, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

from redfuser.errors import ModelError
from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.normalise import OPSET
from redfuser.oracle.run import run_float64
from tests.frontend.normalising.graphs import X, constants, node, normalise, operators
from tests.frontend.running import graph_of, single


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
