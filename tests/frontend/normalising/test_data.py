"""Large initializers stay out of what is handed to ONNX's C++, and are there afterwards."""

from __future__ import annotations

import numpy as np
import onnx.inliner
import onnx.version_converter
import pytest
from onnx import ModelProto, helper, numpy_helper

from redfuser.frontend.model import MIB
from redfuser.frontend.normalising.normalise import normalise

WEIGHT = np.random.default_rng(0).standard_normal((600, 600)).astype(np.float32)


def model(function: bool) -> ModelProto:
    """A product with a weight of more than a mebibyte: of an old operator set, or with a function."""
    opset = helper.make_opsetid("", 18 if function else 12)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Double" if function else "Relu", ["product"], ["y"], domain="own" if function else ""),
    ]
    x, y = (helper.make_tensor_value_info(name, 1, [2, 600]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(WEIGHT, "w")])
    double = helper.make_function("own", "Double", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [opset])
    own = [helper.make_opsetid("own", 1)] if function else []
    functions = [double] if function else []
    return helper.make_model(graph, opset_imports=[opset, *own], functions=functions, ir_version=9)


@pytest.mark.parametrize("function", [False, True])
def test_no_large_model_is_serialised(function: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def watched(call):
        def watch(proto, *arguments, **options):
            sizes.append(proto.ByteSize())
            return call(proto, *arguments, **options)

        return watch

    for module, name in ((onnx.version_converter, "convert_version"), (onnx.inliner, "inline_local_functions")):
        monkeypatch.setattr(module, name, watched(getattr(module, name)))
    result = normalise(model(function))
    assert sizes and max(sizes) < MIB < WEIGHT.nbytes
    (kept,) = result.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(kept), WEIGHT)
