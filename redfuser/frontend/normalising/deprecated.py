"""Group normalisation of operator sets 18 to 20, which ONNX has withdrawn and models have.

ONNX's checker and its inference refuse it, so it is kept from the one and written out before the other. Its scale and
bias have one number for each group; from operator set 21 on it is another operator, with one for each channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from redfuser.frontend.normalising.definition import Definition, Widened

if TYPE_CHECKING:
    from onnx import NodeProto, TypeProto

#: Of variances, unless the node says otherwise.
EPSILON = 1e-5


def is_withdrawn(node: NodeProto, opset: int) -> bool:
    """Whether ONNX knows the operator in other operator sets only."""
    return node.op_type == "GroupNormalization" and node.domain in ("", "ai.onnx") and 18 <= opset < 21


def define_withdrawn(node: NodeProto, type_of: Callable[[str], TypeProto], opset: int) -> list[NodeProto]:
    """The nodes that define it: each group to mean 0 and variance 1, then its scale and bias.

    Args:
        type_of: element type of what the node reads.
        opset: version of the operator set to write it in, 18 at least.
    """
    write = Definition(node, type_of, opset)
    wide = Widened(write)
    groups = write.integers(0, write.attribute("num_groups", 1), -1)
    x = wide.cast(write.add("Reshape", write.input(0), groups))
    centred = write.add("Sub", x, write.mean(x))
    variance = write.mean(write.add("Mul", centred, centred))
    spread = write.add("Add", variance, write.number(write.attribute("epsilon", EPSILON), wide.kind))
    normal = write.add("Div", centred, write.add("Sqrt", spread))
    column = write.integers(-1, 1)
    scale, bias = (wide.cast(write.add("Reshape", write.input(place), column)) for place in (1, 2))
    result = write.add("Add", write.add("Mul", normal, scale), bias)
    shape = write.add("Shape", write.input(0))
    wide.round(write.add("Reshape", result, shape, out=wide.place(write.output(0))), write.output(0))
    return write.nodes
