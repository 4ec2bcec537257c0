"""Operators that are defined by other operators, replaced by their definition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.branches import rename_reads
from redfuser.frontend.normalising.contributed import DOMAIN, define
from redfuser.frontend.normalising.values import GraphValues

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

#: Neither TVM's importer nor ours has a converter of these.
EXPANDED = frozenset(
    [
        "CastLike",
        "Celu",
        "CenterCropPad",
        "GroupNormalization",
        "NegativeLogLikelihoodLoss",
        "RotaryEmbedding",
        "SoftmaxCrossEntropyLoss",
        "Swish",
    ]
)


def expand(node: NodeProto, values: GraphValues, proto: ModelProto) -> list[NodeProto] | None:
    """The nodes that define ``node``, named after it; None to keep it.

    Args:
        node: its outputs' types are inferred already.
        values: types of what it reads.
        proto: the model, for its operator sets.

    Raises:
        UnsupportedOperatorError: a contributed operator used in a way that its definition doesn't cover.
    """
    import onnx.inliner
    from onnx import helper

    if node.domain == DOMAIN:
        return define(node, values.types.__getitem__, opset_of(proto))
    if node.op_type not in EXPANDED or node.domain not in ("", "ai.onnx"):
        return None
    inputs = [helper.make_value_info(name, values.types[name]) for name in dict.fromkeys(filter(None, node.input))]
    outputs = [helper.make_value_info(name, values.types[name]) for name in node.output if name]
    graph = helper.make_graph([node], "definition", inputs, outputs)
    model = helper.make_model(graph, opset_imports=list(proto.opset_import), ir_version=proto.ir_version)
    try:
        inlined = onnx.inliner.inline_selected_functions(
            model, [("", node.op_type)], exclude=False, inline_schema_functions=True
        )
    except RuntimeError:
        return None  # element types the inliner doesn't know; the importer refuses the operator by name
    nodes = list(inlined.graph.node)
    inner = {name for each in nodes for name in each.output if name} - set(node.output)
    names = {name: f"{node.name}/{name}" for name in inner}
    for place, each in enumerate(nodes):
        rename_reads(each, names)
        each.name = f"{node.name}/{each.op_type}_{place}"
        for position, name in enumerate(each.output):
            each.output[position] = names.get(name, name)
    return None if any(each.op_type == node.op_type for each in nodes) else nodes
