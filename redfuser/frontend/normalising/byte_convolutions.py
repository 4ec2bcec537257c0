"""Convolutions of bytes with constant weights as products of bytes, their patches as rows; pools of bytes beside.

Channels come last there: those of a patch lie side by side, and so do those of a result. What follows element by
element stays in that order (:mod:`redfuser.frontend.normalising.channels_last`). Padding is the zero point, which zero
is dequantised from. Where each channel is convolved by itself, there is no product, but sums of vectors of channels in
float32. Other groups stay as they are: too few channels for either.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.convolved import ConvolutionReader, Convolved
from redfuser.frontend.normalising.convolved_sums import ConvolvedSums
from redfuser.frontend.normalising.definition import Definition
from redfuser.frontend.normalising.dequantised import Bytes, types_of
from redfuser.frontend.normalising.expansion import rename_inner
from redfuser.frontend.normalising.integer_convolutions import INTEGER_CONVOLUTIONS
from redfuser.frontend.normalising.names import FreshNames
from redfuser.frontend.normalising.windows import Shown, Window, dims_of, window_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

#: What convolves.
CONVOLUTIONS = ("Conv", *INTEGER_CONVOLUTIONS)

#: Fewer kernels than this fill no vector of a product of bytes.
LEAST_KERNELS = 16

#: Elements of a kernel whose sum is written out. float32 holds sums of ten times as many products of bytes.
MOST_WRITTEN = 25


def convolve_as_bytes(proto: ModelProto) -> list[str]:
    """Rewrite, in place, each convolution of bytes with a constant weight, dequantised or not, and MaxPool of such.

    Scales and zero points of the image are one for all, of the weight one for all or for each kernel.

    Args:
        proto: normalised, with the types of all its values. Those of values written here are left out.

    Returns:
        Names of the results, each of which a transposition puts channels second again.
    """
    rewriter = _Rewriter(proto)
    nodes: list[NodeProto] = []
    for node in proto.graph.node:
        written = rewriter.rewritten(node)
        nodes += [node] if written is None else written
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return rewriter.results


class _Rewriter:
    def __init__(self, proto: ModelProto) -> None:
        self.reader = ConvolutionReader(proto.graph)
        self.values = self.reader.values
        self.types = types_of(proto.graph)
        self.opset = opset_of(proto)
        self.fresh = FreshNames(proto.graph)
        self.results: list[str] = []
        self.done: set[str] = set()  # results of nodes that are written already, with one before them

    def rewritten(self, node: NodeProto) -> list[NodeProto] | None:
        """The nodes that stand in for a node; None to keep it."""
        if node.output and node.output[0] in self.done:
            return []
        if node.domain not in ("", "ai.onnx"):
            return None
        if node.op_type == "MaxPool":
            return self._pooled(node)
        convolved = self.reader.read(node) if node.op_type in CONVOLUTIONS else None
        return self._convolved(convolved) if convolved else None

    def _convolved(self, convolved: Convolved) -> list[NodeProto] | None:
        node, weight = convolved.node, convolved.weight
        write = Definition(node, self.types.__getitem__, self.opset)
        shape, groups = self._kernels(weight), write.attribute("group", 1)
        window = window_of(write, shape[2:], dims_of(self.types[write.output(0)]))
        if window is None:
            return None
        kind = self.types[convolved.image.data].tensor_type.elem_type
        sums = ConvolvedSums(write, convolved, self.values, window, kind)
        if not sums.fits() or not self._is_single(convolved.image.zero):
            return None
        if groups == 1:
            result = sums.product()
        elif shape[:2] == [groups, 1] and 1 < prod(shape[2:]) <= MOST_WRITTEN and sums.known_zero is not None:
            result = sums.channelwise()
        else:
            return None
        _put_channels_second(write, result, window, convolved.output)
        rename_inner(write.nodes, node, self.fresh)
        write.nodes[-1].output[0] = convolved.output
        self.done.update(each.output[0] for each in convolved.tail)
        self.results.append(convolved.output)
        return write.nodes

    def _is_single(self, name: str) -> bool:
        """Whether a value that isn't left out is one number."""
        return self.values.single(name) or (name in self.types and dims_of(self.types[name]) in ([], [1]))

    def _pooled(self, node: NodeProto) -> list[NodeProto] | None:
        """The largest bytes of each window, dequantised if they were: scales are positive."""
        import numpy as np
        from onnx import TensorProto, helper

        write = Definition(node, self.types.__getitem__, self.opset)
        own = self.types[node.input[0]].tensor_type.elem_type in (TensorProto.INT8, TensorProto.UINT8)
        image = Bytes(node.input[0], "", "", 1) if own else self.values.bytes(node.input[0])
        if image is None or not self.values.single(image.scale, image.zero) or write.output(1):
            return None
        if image.scale and not (self.values.array(image.scale) > 0).all():
            return None
        channels, sizes = write.shape(0)[1], write.attribute("kernel_shape", [])
        window = window_of(write, sizes, dims_of(self.types[write.output(0)]))
        if window is None or not 1 < prod(sizes) <= MOST_WRITTEN or channels is None or channels < LEAST_KERNELS:
            return None
        kind = helper.tensor_dtype_to_np_dtype(self.types[image.data].tensor_type.elem_type)
        least = write.tensor(np.array(np.iinfo(kind).min, kind))
        largest = write.add("Max", *Shown(write, image.data, window, least).elements())
        turned = _put_channels_second(write, largest, window, write.output(0) if own else write.name_for("Transpose"))
        if not own:
            write.add("DequantizeLinear", turned, image.scale, *filter(None, [image.zero]), out=write.output(0))
        rename_inner(write.nodes, write.node, self.fresh)
        self.results.append(write.nodes[-1 if own else -2].output[0])
        return write.nodes

    def _kernels(self, weight: Bytes) -> list[int]:
        """Shape of a constant weight of enough kernels, scaled as a whole or one by one; empty of any other."""
        tensor = self.values.constants.get(weight.data)
        if tensor is None or tensor.dims[0] < LEAST_KERNELS:
            return []
        fits = self.values.single(weight.scale, weight.zero) or weight.axis % len(tensor.dims) == 0
        return list(tensor.dims) if fits else []


def _put_channels_second(write: Definition, value: str, window: Window, name: str) -> str:
    rank = len(window.extents)
    return write.add("Transpose", value, perm=[0, rank + 1, *range(1, rank + 1)], out=name)
