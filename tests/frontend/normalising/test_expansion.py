"""Operators that others define."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

from redfuser.oracle.run import run_float64
from tests.frontend.normalising.graphs import node, normalise, operators
from tests.frontend.running import single


def test_operators_that_onnx_defines_by_others_are_expanded() -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    ones = np.ones(4, np.float32)
    proto = single("GroupNormalization", {"x": x}, {"s": ones, "b": ones}, opset=21, num_groups=2)
    result = normalise(proto)
    assert "GroupNormalization" not in operators(result)
    assert {each.name.partition("/")[0] for each in result.graph.node if each.op_type != "Identity"} == {"node"}
    assert np.allclose(run_float64(proto, {"x": x})["y0"], run_float64(result, {"x": x})["y0"])


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
