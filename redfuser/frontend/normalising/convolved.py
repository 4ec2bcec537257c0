"""Nodes that convolve bytes: Conv between DequantizeLinear nodes, QLinearConv and ConvInteger, read as one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redfuser.frontend.normalising.dequantised import Bytes, ByteValues

if TYPE_CHECKING:
    import numpy
    from onnx import GraphProto, NodeProto

    Array = numpy.ndarray[Any, Any]

#: What may stand between a convolution and its QuantizeLinear: it cuts off, wherever the rounding is.
_CUTS = ("Relu", "Clip")


@dataclass(frozen=True)
class Convolved:
    """A convolution of bytes.

    Args:
        image, weight: the operands; scales are "" for none. Those of the weight are one for all or one a kernel.
        node: the convolution.
        tail: nodes after it that are part of it, one after another.
        bias: whole numbers in units of both scales, one a kernel; None for none.
        real_bias: name of a bias in real numbers; "" for none.
        scale, zero: names of those that the result is quantised with; "" where it is real, or whole.
    """

    image: Bytes
    weight: Bytes
    node: NodeProto
    tail: tuple[NodeProto, ...] = ()
    bias: Array | None = None
    real_bias: str = ""
    scale: str = ""
    zero: str = ""

    @property
    def output(self) -> str:
        """Name of the result."""
        return (self.node, *self.tail)[-1].output[0]


class ConvolutionReader:
    """Reads the convolutions of a graph."""

    def __init__(self, graph: GraphProto) -> None:
        self.values = ByteValues(graph)
        self._outputs = {value.name for value in graph.output}
        self._readers: dict[str, list[NodeProto]] = {}
        for node in graph.node:
            for name in node.input:
                self._readers.setdefault(name, []).append(node)

    def read(self, node: NodeProto) -> Convolved | None:
        """What a node convolves, if it is bytes, and the scales are constants."""
        if node.op_type == "Conv":
            return self._between(node)
        names = [*node.input, *[""] * 9][:9]
        if node.op_type == "ConvInteger":
            image, weight, image_zero, weight_zero = names[:4]
            return Convolved(Bytes(image, "", image_zero, 1), Bytes(weight, "", weight_zero, 0), node)
        x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, bias = names
        image, weight = Bytes(x, x_scale, x_zero, 1), Bytes(w, w_scale, w_zero, 0)
        known = self.values.single(image.scale, image.zero, scale, zero) and weight.scale in self.values.constants
        if not known or (bias and bias not in self.values.constants):
            return None
        return Convolved(image, weight, node, (), self.values.array(bias) if bias else None, "", scale, zero)

    def _between(self, node: NodeProto) -> Convolved | None:
        """Of a Conv, with what quantises its result, where nothing else reads that."""
        image, weight = (self.values.bytes(name) for name in node.input[:2])
        if image is None or weight is None or not self.values.single(image.scale, image.zero):
            return None
        bias = node.input[2] if len(node.input) > 2 else ""
        whole = self._whole(bias, image, weight)
        tail = self._tail(node) if whole is not None or not bias or bias in self.values.constants else ()
        scale, zero = (*tail[-1].input, "")[1:3] if tail else ("", "")
        return Convolved(image, weight, node, tail, whole, bias if whole is None else "", scale, zero)

    def _whole(self, bias: str, image: Bytes, weight: Bytes) -> Array | None:
        """A bias in units of both scales; None where there is none, or it is anything else."""
        import numpy as np

        node = self.values.maker(bias)
        if node is None or node.op_type != "DequantizeLinear":
            return None
        data, scale, zero = (
            self.values.array(name) if name in self.values.constants else None for name in (*node.input, "")[:3]
        )
        if data is None or scale is None or data.dtype != np.int32 or data.ndim != 1:
            return None
        if len(node.input) > 2 and node.input[2] and (zero is None or zero.any()):
            return None
        units = self.values.array(image.scale).reshape(-1) * self.values.array(weight.scale).reshape(-1)
        if scale.size not in (1, units.size) or not np.allclose(scale.reshape(-1), units, rtol=2.0**-22, atol=0):
            return None
        return data

    def _tail(self, node: NodeProto) -> tuple[NodeProto, ...]:
        """The nodes up to the QuantizeLinear after a convolution, with one scale for all; none where there is none."""
        found: list[NodeProto] = []
        while len(found) < len(_CUTS):
            name = (node, *found)[-1].output[0]
            readers = self._readers.get(name, [])
            if len(readers) != 1 or name in self._outputs or readers[0].domain not in ("", "ai.onnx"):
                return ()
            found.append(readers[0])
            if readers[0].op_type == "QuantizeLinear":
                return tuple(found) if self._is_to_bytes(readers[0]) else ()
            if readers[0].op_type not in _CUTS or not self._is_cut(readers[0]):
                return ()
        return ()

    def _is_to_bytes(self, node: NodeProto) -> bool:
        import numpy as np

        constants = self.values.constants
        plain = len(node.input) == 3 and all(name in constants for name in node.input[1:])
        if (
            not plain
            or not self.values.single(*node.input[1:])
            or any(a.name != "axis" and a.i for a in node.attribute)
        ):
            return False
        scale, zero = map(self.values.array, node.input[1:])
        return scale.dtype == np.float32 and bool((scale > 0).all()) and zero.dtype in (np.int8, np.uint8)

    def _is_cut(self, node: NodeProto) -> bool:
        """Whether the bounds, if there are any, are numbers."""
        return not node.attribute and self.values.single(*list(node.input)[1:])
