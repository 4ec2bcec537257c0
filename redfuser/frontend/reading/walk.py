"""Every node, graph and tensor of a model, wherever it hides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from redfuser.errors import ModelError

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto


def nodes_of(proto: ModelProto) -> Iterator[NodeProto]:
    """Every node: graph, subgraphs, functions."""
    pending = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    while pending:
        node = pending.pop()
        yield node
        pending += [inner for attribute in node.attribute for graph in _graphs(attribute) for inner in graph.node]


def count_nodes(proto: ModelProto, depth: int) -> int:
    """Nodes of the model with every call of a function replaced by its body: a few lines may stand for billions.

    Raises:
        ModelError: a function calls itself, or subgraphs nest deeper than ``depth``.
    """
    functions = {(function.domain, function.name, function.overload): function for function in proto.functions}
    counts: dict[tuple[str, str, str], int] = {}

    def count(nodes: Iterable[NodeProto], callers: tuple[tuple[str, str, str], ...], level: int) -> int:
        total = 0
        for node in nodes:
            called = (node.domain, node.op_type, node.overload)
            if called in callers:
                raise ModelError(f"function {node.op_type} calls itself")
            if called in functions and called not in counts:
                counts[called] = count(functions[called].node, (*callers, called), 0)
            total += counts.get(called, 1)
            graphs = [graph for attribute in node.attribute for graph in _graphs(attribute)]
            if graphs and level >= depth:
                raise ModelError(f"node '{node.name}': subgraphs nest deeper than {depth} levels")
            total += sum(count(graph.node, callers, level + 1) for graph in graphs)
        return total

    bodies = sum(count(function.node, (key,), 0) for key, function in functions.items() if key not in counts)
    return count(proto.graph.node, (), 0) + bodies


def names_read(node: NodeProto) -> Iterator[str]:
    """Every name a node may read, those of its subgraphs included."""
    yield from filter(None, node.input)
    for attribute in node.attribute:
        for graph in _graphs(attribute):
            yield from (output.name for output in graph.output)
            for inner in graph.node:
                yield from names_read(inner)


def names_defined(body: GraphProto | FunctionProto) -> Iterator[str]:
    """Every name that a graph or function gives to a value, those of its subgraphs included."""
    yield from (value if isinstance(value, str) else value.name for value in body.input)
    yield from (tensor.name for tensor in getattr(body, "initializer", ()))
    for node in body.node:
        yield from filter(None, node.output)
        for attribute in node.attribute:
            for inner in _graphs(attribute):
                yield from names_defined(inner)


def _graphs(attribute: AttributeProto) -> list[GraphProto]:
    return ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)


def bodies_of(body: GraphProto | FunctionProto) -> Iterator[GraphProto | FunctionProto]:
    """A graph or function, and every subgraph of it."""
    yield body
    for node in body.node:
        for attribute in node.attribute:
            for inner in _graphs(attribute):
                yield from bodies_of(inner)


def graphs_of(proto: ModelProto) -> Iterator[GraphProto]:
    """The graph and every subgraph, those in functions too."""
    yield proto.graph
    for node in nodes_of(proto):
        for attribute in node.attribute:
            yield from _graphs(attribute)


def tensors_of(proto: ModelProto) -> Iterator[TensorProto]:
    """Every tensor: initializers, sparse ones, attributes, in subgraphs and functions too."""
    attributes = [attribute for function in proto.functions for attribute in function.attribute_proto]
    attributes += [attribute for node in nodes_of(proto) for attribute in node.attribute]
    sparse = [tensor for graph in graphs_of(proto) for tensor in graph.sparse_initializer]
    for graph in graphs_of(proto):
        yield from graph.initializer
    for attribute in attributes:
        yield from [attribute.t] if attribute.HasField("t") else []
        yield from attribute.tensors
        sparse += [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
        sparse += attribute.sparse_tensors
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)
