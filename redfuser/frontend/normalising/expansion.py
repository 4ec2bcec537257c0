"""Operators that are defined by other operators, replaced by their definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.contributed.table import DOMAIN, define
from redfuser.frontend.normalising.definition import Definition
from redfuser.frontend.normalising.integer_convolutions import INTEGER_CONVOLUTIONS
from redfuser.frontend.normalising.names import FreshNames, rename_defined
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


def expand(node: NodeProto, values: GraphValues, proto: ModelProto, fresh: FreshNames) -> list[NodeProto] | None:
    """The nodes that define ``node``, named after it; None to keep it.

    Args:
        node: its outputs' types are inferred already.
        values: types of what it reads.
        proto: the model, for its operator sets.
        fresh: names for the values between those nodes.

    Raises:
        UnsupportedOperatorError: a contributed operator used in a way that its definition doesn't cover.
    """
    if node.domain == DOMAIN:
        nodes = define(node, values.types.__getitem__, opset_of(proto), values.known)
    elif node.op_type in EXPANDED and node.domain in ("", "ai.onnx"):
        nodes = _inlined(node, values, proto)
    elif node.op_type in INTEGER_CONVOLUTIONS and node.domain in ("", "ai.onnx"):
        write = Definition(node, values.types.__getitem__, opset_of(proto))
        INTEGER_CONVOLUTIONS[node.op_type](write)
        nodes = write.nodes
    else:
        return None
    if nodes is None or any(each.op_type == node.op_type and each.domain == node.domain for each in nodes):
        return None
    rename_inner(nodes, node, fresh)
    return nodes


def rename_inner(nodes: Sequence[NodeProto], node: NodeProto, fresh: FreshNames) -> None:
    """Give what the nodes that define ``node`` compute on the way names of its own, which the graph hasn't."""
    inner = dict.fromkeys(name for each in nodes for name in each.output if name and name not in node.output)
    rename_defined(nodes, {name: fresh.take(f"{node.name}/{name.removeprefix(f'{node.name}/')}") for name in inner})


def _inlined(node: NodeProto, values: GraphValues, proto: ModelProto) -> list[NodeProto] | None:
    """The body of the function that ONNX defines an operator by; None if it has none for these types."""
    import onnx.inliner
    from onnx import helper

    inputs = [helper.make_value_info(name, values.types[name]) for name in dict.fromkeys(filter(None, node.input))]
    outputs = [helper.make_value_info(name, values.types[name]) for name in node.output if name]
    graph = helper.make_graph([_with_defaults(node, opset_of(proto))], "definition", inputs, outputs)
    model = helper.make_model(graph, opset_imports=list(proto.opset_import), ir_version=proto.ir_version)
    try:
        inlined = onnx.inliner.inline_selected_functions(
            model, [("", node.op_type)], exclude=False, inline_schema_functions=True
        )
    except RuntimeError:
        return None  # element types the inliner doesn't know; the importer refuses the operator by name
    nodes = list(inlined.graph.node)
    for place, each in enumerate(nodes):
        each.name = f"{node.name}/{each.op_type}_{place}"
    return nodes


def _with_defaults(node: NodeProto, opset: int) -> NodeProto:
    """A copy that says every attribute: the inliner passes on what is said, and a body may need more than that."""
    import onnx

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    said = {attribute.name for attribute in node.attribute}
    schema = onnx.defs.get_schema(node.op_type, opset)
    missing = (a.default_value for name, a in schema.attributes.items() if name not in said and a.default_value.name)
    copy.attribute.extend(missing)
    return copy
