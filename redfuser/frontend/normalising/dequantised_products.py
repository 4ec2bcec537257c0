"""Products of dequantised bytes with dequantised weights, as quantisers write them (QDQ), as products of the bytes.

``Σ (a - a₀)·α · (w - w₀)·ω = α·ω · Σ (a - a₀)·(w - w₀)``. Processors have instructions for the sum on the right, which
is exact where float32 rounds each product as the graph is written; the scales come after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.frontend.normalising.contributed.quantised import integer_product
from redfuser.frontend.normalising.definition import Definition
from redfuser.frontend.normalising.dequantised import MOST_TERMS, Bytes, ByteValues
from redfuser.frontend.normalising.names import FreshNames

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto, TypeProto


def multiply_as_bytes(graph: GraphProto) -> None:
    """Rewrite, in place, each MatMul and Gemm whose factors are dequantised bytes, the right one a constant matrix.

    Scales and zero points of the left factor are one for all, of the right one for all or one for each column.
    """
    rewriter = _Rewriter(graph)
    nodes = [written for node in graph.node for written in rewriter.rewritten(node)]
    del graph.node[:]
    graph.node.extend(nodes)


class _Rewriter:
    def __init__(self, graph: GraphProto) -> None:
        self.graph = graph
        self.values = ByteValues(graph)
        self.types: dict[str, TypeProto] = {}  # what is written here asks for none
        self.fresh = FreshNames(graph)

    def rewritten(self, node: NodeProto) -> list[NodeProto]:
        """What is to stand in place of a node: itself, or the nodes of a product of bytes."""
        from onnx import TensorProto

        flags = {a.name: a.f if a.name in ("alpha", "beta") else a.i for a in node.attribute}
        plain = node.op_type == "MatMul" or (node.op_type == "Gemm" and not flags.get("transA", 0))
        if not plain or any(flags.get(name, 1) != 1 for name in ("alpha", "beta")):
            return [node]
        left, right = (self.values.bytes(name) for name in node.input[:2])
        turned = bool(flags.get("transB", 0))
        if (
            left is None
            or right is None
            or not self.values.single(left.scale, left.zero)
            or not self._fits(right, turned)
        ):
            return [node]
        weight = self._turned(right.data) if turned else right.data
        write = Definition(node, self.types.__getitem__, 0)
        bias = node.input[2] if len(node.input) > 2 else ""
        sides = (left.data, weight), (left.zero, right.zero), (left.scale, right.scale)
        integer_product(write, *sides, bias, int(TensorProto.FLOAT), node.output[0])
        return write.nodes

    def _fits(self, right: Bytes, turned: bool) -> bool:
        """Whether a right factor is a constant matrix of few enough rows, scaled as a whole or by columns."""
        weight = self.values.constants.get(right.data)
        if weight is None or len(weight.dims) != 2 or weight.dims[1 if turned else 0] > MOST_TERMS:
            return False
        return self.values.single(right.scale, right.zero) or right.axis % 2 == (0 if turned else 1)

    def _turned(self, name: str) -> str:
        from onnx import numpy_helper

        array = numpy_helper.to_array(self.values.constants[name]).T.copy()
        tensor: TensorProto = numpy_helper.from_array(array, self.fresh.take(f"{name}/turned"))
        self.graph.initializer.append(tensor)
        return tensor.name
