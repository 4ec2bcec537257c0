"""Softmax and its kin of operator sets before 13, spelled so that they mean the same in every operator set.

They flattened their input: axes before ``axis`` to one, the rest to another. ONNX's converter forgets it of Hardmax,
its reference implementation of all three.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.names import FreshNames
from redfuser.frontend.reading.walk import graphs_of

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

#: The first operator set in which they don't flatten.
UNFLATTENED = 13

#: The first operator set that what is flattened can be written in: Reshape takes a shape as input.
FLATTENS = 5


def flatten(proto: ModelProto, operators: Collection[str]) -> None:
    """Flatten the input of these operators in the graph and its subgraphs, in place; not below set :data:`FLATTENS`."""
    if FLATTENS <= opset_of(proto) < UNFLATTENED:
        fresh = FreshNames(proto.graph)
        for graph in list(graphs_of(proto)):
            _flatten_graph(graph, operators, fresh)


def _flatten_graph(graph: GraphProto, operators: Collection[str], fresh: FreshNames) -> None:
    nodes: list[NodeProto] = []
    for node in graph.node:
        flat = node.op_type in operators and node.domain in ("", "ai.onnx")
        nodes += _flattened(node, fresh) if flat else [node]
    del graph.node[:]
    graph.node.extend(nodes)


def _flattened(node: NodeProto, fresh: FreshNames) -> list[NodeProto]:
    from onnx import helper

    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1)
    source, target = node.input[0], node.output[0]
    shape, rows, result = (fresh.take(f"{target}/{name}") for name in ("shape", "rows", "result"))
    return [
        helper.make_node("Shape", [source], [shape]),
        helper.make_node("Flatten", [source], [rows], axis=axis),
        helper.make_node(node.op_type, [rows], [result], name=node.name, axis=1),
        helper.make_node("Reshape", [result, shape], [target]),
    ]
