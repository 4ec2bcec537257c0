"""Small graphs, normalised, and what is in them."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from redfuser.frontend.normalising.normalise import normalise as use_up

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
