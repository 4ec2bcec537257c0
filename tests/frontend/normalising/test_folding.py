"""Shapes and constants fold where that makes them smaller."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.errors import ModelError
from redfuser.frontend.normalising.folding import FOLD_BYTES
from tests.frontend.normalising.graphs import constants, node, normalise, operators
from tests.frontend.running import graph_of, single


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
