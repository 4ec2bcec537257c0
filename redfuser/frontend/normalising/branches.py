"""An If whose condition is known becomes the nodes of the branch it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto


def take_branch(node: NodeProto, condition: bool) -> tuple[list[TensorProto], list[NodeProto]]:
    """The constants and nodes of the branch taken, ending in copies to those outputs of the If that have a name.

    What the branch defines gets the node's name in front: two branches may use the same names.
    """
    from onnx import helper

    wanted = "then_branch" if condition else "else_branch"
    branch = next(attribute.g for attribute in node.attribute if attribute.name == wanted)
    defined = [tensor.name for tensor in branch.initializer]
    defined += [name for inner in branch.node for name in inner.output if name]
    names = {name: f"{node.name}/{name}" for name in defined}
    for tensor in branch.initializer:
        tensor.name = names[tensor.name]
    for inner in branch.node:
        rename_reads(inner, names)
        inner.name = f"{node.name}/{inner.name or inner.op_type}"
        for place, name in enumerate(inner.output):
            inner.output[place] = names.get(name, name)
    copies = [
        helper.make_node("Identity", [names.get(inner.name, inner.name)], [outer], name=f"{node.name}/{outer}")
        for inner, outer in zip(branch.output, node.output, strict=True)
        if outer
    ]
    return list(branch.initializer), [*branch.node, *copies]


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
