"""Values that DequantizeLinear makes of bytes, with scales and zero points that are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from onnx import GraphProto, NodeProto, TypeProto

    Array = numpy.ndarray[Any, Any]

#: So many products of bytes less their zero points, 255² at most, add up to less than int32 holds.
MOST_TERMS = (1 << 31) // 255**2


@dataclass(frozen=True)
class Bytes:
    """What a DequantizeLinear makes floating point: names of its three inputs, the zero point "" for none."""

    data: str
    scale: str
    zero: str
    axis: int


class ByteValues:
    """Those of a graph.

    Attributes:
        constants: the graph's initializers by name.
    """

    def __init__(self, graph: GraphProto) -> None:
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self._made_by = {name: node for node in graph.node for name in node.output}

    def bytes(self, name: str) -> Bytes | None:
        """A value as the bytes it was; None if it is anything else, or of other widths or types than these."""
        from onnx import TensorProto

        node = self._made_by.get(name)
        if node is None or node.op_type != "DequantizeLinear" or node.domain not in ("", "ai.onnx"):
            return None
        attributes = {a.name: a.i for a in node.attribute}
        data, scale, zero = (*node.input, "")[:3]
        kind, factor = self._kind(zero or data), self._kind(scale)
        narrow = kind in (TensorProto.INT8, TensorProto.UINT8) and factor == TensorProto.FLOAT
        special = attributes.get("block_size", 0) or attributes.get("output_dtype", 0)
        return Bytes(data, scale, zero, attributes.get("axis", 1)) if narrow and not special else None

    def maker(self, name: str) -> NodeProto | None:
        """The node that gives a value; None of inputs and constants."""
        return self._made_by.get(name)

    def array(self, name: str) -> Array:
        """Contents of a constant."""
        from onnx import numpy_helper

        return numpy_helper.to_array(self.constants[name])

    def single(self, *names: str) -> bool:
        """Whether each of these that isn't left out is a constant of one number for all of a tensor."""
        return all(name in self.constants and list(self.constants[name].dims) in ([], [1]) for name in names if name)

    def _kind(self, name: str) -> int | None:
        """Element type of a constant."""
        return self.constants[name].data_type if name in self.constants else None


def types_of(graph: GraphProto) -> dict[str, TypeProto]:
    """Type of each value that the graph says it of."""
    return {value.name: value.type for value in [*graph.input, *graph.value_info, *graph.output]}
