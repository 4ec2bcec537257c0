"""Nodes that only hand on their input go."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.normalising.graphs import X, node, normalise, operators
from tests.frontend.running import graph_of


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
