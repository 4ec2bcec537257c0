"""Convolutions of dequantised bytes with dequantised weights as products of bytes, their patches as rows; pools beside.

Channels come last there: those of a patch lie side by side, and so do those of a result. What follows element by
element stays in that order (:mod:`redfuser.frontend.normalising.channels_last`). Padding is the zero point, which zero
is dequantised from. Where each channel is convolved by itself, there is no product, but sums of vectors of channels in
float32. Other groups stay as they are: too few channels for either.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.contributed.quantised import integer_product
from redfuser.frontend.normalising.definition import Definition
from redfuser.frontend.normalising.dequantised import MOST_TERMS, Bytes, ByteValues, types_of
from redfuser.frontend.normalising.expansion import rename_inner
from redfuser.frontend.normalising.names import FreshNames
from redfuser.frontend.normalising.windows import Shown, Window, dims_of, window_of

if TYPE_CHECKING:
    import numpy
    from onnx import ModelProto, NodeProto

    Array = numpy.ndarray[Any, Any]

#: Fewer kernels than this fill no vector of a product of bytes.
LEAST_KERNELS = 16

#: Elements of a kernel whose sum is written out. float32 holds sums of ten times as many products of bytes.
MOST_WRITTEN = 25


def convolve_as_bytes(proto: ModelProto) -> list[str]:
    """Rewrite, in place, each Conv whose factors are dequantised bytes, the weight a constant, and MaxPool of bytes.

    Scales and zero points of the image are one for all, of the weight one for all or for each kernel.

    Args:
        proto: normalised, with the types of all its values. Those of values written here are left out.

    Returns:
        Names of the results, each of which a transposition puts channels second again.
    """
    rewriter = _Rewriter(proto)
    nodes = [written for node in proto.graph.node for written in rewriter.rewritten(node) or [node]]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return rewriter.results


class _Rewriter:
    def __init__(self, proto: ModelProto) -> None:
        self.values = ByteValues(proto.graph)
        self.types = types_of(proto.graph)
        self.opset = opset_of(proto)
        self.fresh = FreshNames(proto.graph)
        self.results: list[str] = []

    def rewritten(self, node: NodeProto) -> list[NodeProto]:
        """The nodes that stand in for a node; none to keep it."""
        if node.domain not in ("", "ai.onnx") or node.op_type not in ("Conv", "MaxPool"):
            return []
        image = self.values.bytes(node.input[0])
        if image is None or not self.values.single(image.scale, image.zero):
            return []
        write = Definition(node, self.types.__getitem__, self.opset)
        if node.op_type == "MaxPool":
            return self._pooled(write, image)
        weight = self.values.bytes(node.input[1])
        if weight is None:
            return []
        shape = self._kernels(weight)
        window = window_of(write, shape[2:], dims_of(self.types[write.output(0)]))
        groups = write.attribute("group", 1)
        if window is None:
            return []
        if groups == 1 and prod(shape[1:]) <= MOST_TERMS:
            result = self._product(write, window, image, weight)
        elif shape[:2] == [groups, 1] and 1 < prod(shape[2:]) <= MOST_WRITTEN:
            result = self._channelwise(write, window, image, weight)
        else:
            return []
        _put_channels_second(write, result, window, node.output[0])
        rename_inner(write.nodes, node, self.fresh)
        self.results.append(node.output[0])
        return write.nodes

    def _pooled(self, write: Definition, image: Bytes) -> list[NodeProto]:
        """The largest bytes of each window, dequantised: scales are positive. No nodes where it isn't for that."""
        import numpy as np
        from onnx import helper, numpy_helper

        channels, sizes = write.shape(0)[1], write.attribute("kernel_shape", [])
        window = window_of(write, sizes, dims_of(self.types[write.output(0)]))
        positive = (numpy_helper.to_array(self.values.constants[image.scale]) > 0).all()
        if window is None or write.output(1) or not positive or not 1 < prod(sizes) <= MOST_WRITTEN:
            return []
        if channels is None or channels < LEAST_KERNELS:
            return []
        kind = helper.tensor_dtype_to_np_dtype(self.types[image.data].tensor_type.elem_type)
        least = write.tensor(np.array(np.iinfo(kind).min, kind))
        largest = write.add("Max", *Shown(write, image.data, window, least).elements())
        turned = _put_channels_second(write, largest, window, write.name_for("Transpose"))
        write.add("DequantizeLinear", turned, image.scale, *filter(None, [image.zero]), out=write.output(0))
        rename_inner(write.nodes, write.node, self.fresh)
        self.results.append(write.nodes[-2].output[0])
        return write.nodes

    def _kernels(self, weight: Bytes) -> list[int]:
        """Shape of a constant weight of enough kernels, scaled as a whole or one by one; empty of any other."""
        tensor = self.values.constants.get(weight.data)
        if tensor is None or tensor.dims[0] < LEAST_KERNELS:
            return []
        fits = self.values.single(weight.scale, weight.zero) or weight.axis % len(tensor.dims) == 0
        return list(tensor.dims) if fits else []

    def _product(self, write: Definition, window: Window, image: Bytes, weight: Bytes) -> str:
        from onnx import TensorProto

        rows = self._shown(write, window, image).patches()
        sides = (rows, write.tensor(self._matrix(weight))), (image.zero, weight.zero), (image.scale, weight.scale)
        return integer_product(write, *sides, write.input(2), int(TensorProto.FLOAT))

    def _channelwise(self, write: Definition, window: Window, image: Bytes, weight: Bytes) -> str:
        """The sum element by element, in whole numbers that float32 holds exactly; zero points come off afterwards."""
        import numpy as np
        from onnx import TensorProto, numpy_helper

        matrix, kind = self._matrix(weight).astype(np.float32), int(TensorProto.FLOAT)
        if weight.zero:
            matrix -= numpy_helper.to_array(self.values.constants[weight.zero]).astype(np.float32)
        elements = self._shown(write, window, image).elements()
        terms = [
            write.add("Mul", write.add("Cast", element, to=kind), write.tensor(row))
            for element, row in zip(elements, matrix, strict=True)
        ]
        exact = write.total(*terms)
        if image.zero:
            zero = numpy_helper.to_array(self.values.constants[image.zero]).astype(np.float32)
            exact = write.add("Sub", exact, write.tensor(zero * matrix.sum(0)))
        scale = write.add("Reshape", write.add("Mul", image.scale, weight.scale), write.integers(-1))
        scaled = write.add("Mul", exact, scale)
        return write.add("Add", scaled, write.input(2)) if write.input(2) else scaled

    def _shown(self, write: Definition, window: Window, image: Bytes) -> Shown:
        import numpy as np

        scalar = write.tensor(np.zeros(0, np.int64))
        padding = write.add("Reshape", image.zero, scalar) if image.zero else ""
        return Shown(write, image.data, window, padding)

    def _matrix(self, weight: Bytes) -> Array:
        """Kernels as columns, their elements in the order of patches."""
        from onnx import numpy_helper

        kernels = numpy_helper.to_array(self.values.constants[weight.data])
        matrix: Array = kernels.transpose(*range(2, kernels.ndim), 1, 0).reshape(-1, kernels.shape[0]).copy()
        return matrix


def _put_channels_second(write: Definition, value: str, window: Window, name: str) -> str:
    rank = len(window.extents)
    return write.add("Transpose", value, perm=[0, rank + 1, *range(1, rank + 1)], out=name)
