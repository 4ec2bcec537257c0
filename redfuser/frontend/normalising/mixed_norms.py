"""RMSNormalization whose data and scale have different types, which ONNX says, and its inference and function refuse.

Source: ONNX's schema of the operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from redfuser.frontend.normalising.definition import Definition

if TYPE_CHECKING:
    from onnx import NodeProto, TypeProto

#: The attributes, and what they are unless the node says otherwise.
DEFAULTS = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}


def is_mixed(node: NodeProto, type_of: Callable[[str], int]) -> bool:
    """Whether it is an RMSNormalization whose scale has another type than its data.

    Args:
        type_of: element type of what the node reads.
    """
    of_onnx = node.op_type == "RMSNormalization" and node.domain in ("", "ai.onnx")
    return of_onnx and type_of(node.input[0]) != type_of(node.input[1])


def define_mixed(node: NodeProto, type_of: Callable[[str], TypeProto], opset: int) -> list[NodeProto]:
    """The nodes that define it: data of mean square 1, rounded to their own type, times the scale in the scale's."""
    write = Definition(node, type_of, opset)
    own, kind = write.element_type(0), write.element_type(1)
    attributes = {name: write.attribute(name, default) for name, default in DEFAULTS.items()}
    normal = write.add("RMSNormalization", write.input(0), write.number(1, own), **attributes)
    write.add("Mul", write.add("Cast", normal, to=kind), write.input(1), out=write.output(0))
    return write.nodes
