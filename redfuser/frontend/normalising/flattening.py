"""Softmax and its kin of operator sets before 13, spelled so that they mean the same in every operator set.

They flattened their input: axes before ``axis`` to one, the rest to another. ONNX's converter forgets it of Hardmax,
its reference implementation of all three.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.names import FreshNames
from redfuser.frontend.reading.walk import bodies_of

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

#: The first operator set in which they don't flatten.
UNFLATTENED = 13

#: The first operator set that what is flattened can be written in: Reshape takes a shape as input.
FLATTENS = 5


def flatten(proto: ModelProto, operators: Collection[str]) -> None:
    """Flatten the input of these operators in place: in the graph and in functions, each by its own operator set.

    Not below set :data:`FLATTENS`.
    """
    for body in (proto.graph, *proto.functions):
        opset = opset_of(proto if body is proto.graph else body)
        if FLATTENS <= opset < UNFLATTENED:
            fresh = FreshNames(body)
            for each in reversed(list(bodies_of(body))):  # inner ones first: protobuf copies a node that is put back
                _flatten_body(each, operators, fresh)


def _flatten_body(body: GraphProto | FunctionProto, operators: Collection[str], fresh: FreshNames) -> None:
    nodes: list[NodeProto] = []
    for node in body.node:
        flat = node.op_type in operators and node.domain in ("", "ai.onnx")
        nodes += _flattened(node, fresh) if flat else [node]
    del body.node[:]
    body.node.extend(nodes)


def _flattened(node: NodeProto, fresh: FreshNames) -> list[NodeProto]:
    from onnx import helper

    source, target = node.input[0], node.output[0]
    shape, rows, result = (fresh.take(f"{target}/{name}") for name in ("shape", "rows", "result"))
    flattening = helper.make_node("Flatten", [source], [rows])
    # As it is said: in a function it may be the function's own attribute.
    flattening.attribute.extend(attribute for attribute in node.attribute if attribute.name == "axis")
    return [
        helper.make_node("Shape", [source], [shape]),
        flattening,
        helper.make_node(node.op_type, [rows], [result], name=node.name, axis=1),
        helper.make_node("Reshape", [result, shape], [target]),
    ]
