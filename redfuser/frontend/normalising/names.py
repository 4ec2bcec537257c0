"""Names for what is written into a graph, which no value of the model has already."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from redfuser.frontend.reading.walk import names_defined

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, NodeProto


class FreshNames:
    """Hands out each name once, and none that a value of the graph or function has."""

    def __init__(self, body: GraphProto | FunctionProto) -> None:
        self._taken = set(names_defined(body))

    def take(self, wanted: str) -> str:
        """The name wanted, with a number behind it if it is taken."""
        numbered = (f"{wanted}_{number}" for number in itertools.count(1))
        name = next(name for name in itertools.chain([wanted], numbered) if name not in self._taken)
        self._taken.add(name)
        return name


def rename_defined(nodes: Iterable[NodeProto], names: Mapping[str, str]) -> None:
    """Rename what nodes define, and where they read it."""
    for node in nodes:
        rename_reads(node, names)
        for place, name in enumerate(node.output):
            node.output[place] = names.get(name, name)


def rename_reads(node: NodeProto, names: Mapping[str, str]) -> None:
    """Rename what a node reads, and what its subgraphs read from outside."""
    for place, name in enumerate(node.input):
        node.input[place] = names.get(name, name)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            for output in attribute.g.output:
                output.name = names.get(output.name, output.name)
            for inner in attribute.g.node:
                rename_reads(inner, names)
