"""An If whose condition is known becomes the nodes of the branch it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.frontend.normalising.names import FreshNames, rename_defined

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto


def branch_of(node: NodeProto, condition: bool) -> GraphProto:
    """The branch that an If takes."""
    wanted = "then_branch" if condition else "else_branch"
    return next(attribute.g for attribute in node.attribute if attribute.name == wanted)


def take_branch(node: NodeProto, condition: bool, fresh: FreshNames) -> tuple[list[TensorProto], list[NodeProto]]:
    """The constants and nodes of the branch taken, ending in copies to those outputs of the If that have a name.

    What the branch defines gets the node's name in front: two branches may use the same names.
    """
    from onnx import helper

    branch = branch_of(node, condition)
    defined = [tensor.name for tensor in branch.initializer]
    defined += [name for inner in branch.node for name in inner.output if name]
    names = {name: fresh.take(f"{node.name}/{name}") for name in defined}
    for tensor in branch.initializer:
        tensor.name = names[tensor.name]
    rename_defined(branch.node, names)
    for inner in branch.node:
        inner.name = f"{node.name}/{inner.name or inner.op_type}"
    copies = [
        helper.make_node("Identity", [names.get(inner.name, inner.name)], [outer], name=f"{node.name}/{outer}")
        for inner, outer in zip(branch.output, node.output, strict=True)
        if outer
    ]
    return list(branch.initializer), [*branch.node, *copies]
