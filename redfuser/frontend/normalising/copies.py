"""Nodes that only hand on their input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.frontend.normalising.values import GraphValues

if TYPE_CHECKING:
    from onnx import NodeProto


def copies_input(node: NodeProto, values: GraphValues) -> bool:
    """Whether the node's only output is its first input, element for element and in the same shape."""
    if node.domain not in ("", "ai.onnx") or not node.input or any(node.output[1:]):
        return False
    source, target = node.input[0], node.output[0]
    if node.op_type == "Identity":
        return True
    if node.op_type == "Dropout":
        training = node.input[2] if len(node.input) > 2 else ""
        return not training or (training in values.constants and not values.array(training).any())
    if node.op_type == "Cast":
        return values.element_type(source) == values.element_type(target)
    if node.op_type in ("Reshape", "Expand", "Flatten", "Squeeze", "Unsqueeze"):
        shape = values.shape(source)
        return shape is not None and shape == values.shape(target)
    if node.op_type == "Concat":
        return len(node.input) == 1
    if node.op_type == "Transpose":
        order = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), None)
        return order is not None and order == sorted(order)
    return False
