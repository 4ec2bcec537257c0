"""ConvInteger and QLinearConv as a convolution of whole numbers in floating point, where their sums are exact.

Source: the operators' schemas in ONNX. ONNX's convolution takes no integers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from redfuser.frontend.normalising.definition import Definition

#: What they have in common with ONNX's convolution.
ATTRIBUTES = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")

#: Products of two bytes less their zero points, 255² at most, that add up to less than float32's 24 digits hold.
_EXACT_IN_FLOAT = (1 << 24) // 255**2


def define_conv_integer(write: Definition) -> None:
    """``(x - x_zero) * (w - w_zero)`` in int32; inputs: x (N, C, …), w (M, C/group, …), zero points of both."""
    from onnx import TensorProto

    kind = _exact_kind(write, 1)
    product = _convolution(write, (0, 2), (1, 3), "", kind)
    write.add("Cast", product, to=int(TensorProto.INT32), out=write.output(0))


def define_q_linear_conv(write: Definition) -> None:
    """The same with a bias of int32, scaled and quantised again.

    Inputs: x with scale and zero point, w alike, of which both may be for each of its M kernels, scale and zero point
    of the result, bias (M) in units of both scales.
    """
    kind = write.element_type(1)
    bias = write.add("Cast", write.input(8), to=kind) if write.input(8) else ""
    product = _convolution(write, (0, 2), (3, 5), bias, kind)
    scale = write.add("Mul", write.input(1), write.input(4))
    if write.shape(4):
        scale = write.add("Reshape", scale, write.integers(-1, *[1] * (len(write.shape(3)) - 2)))
    write.add("QuantizeLinear", write.add("Mul", product, scale), write.input(6), write.input(7), out=write.output(0))


#: By operator.
INTEGER_CONVOLUTIONS: dict[str, Callable[[Definition], None]] = {
    "ConvInteger": define_conv_integer,
    "QLinearConv": define_q_linear_conv,
}


def _convolution(write: Definition, x: tuple[int, int], w: tuple[int, int], bias: str, kind: int) -> str:
    """Of both operands less their zero points, each given by their places among the inputs."""
    own = {name: value for name in ATTRIBUTES if (value := write.attribute(name, None)) is not None}
    operands = [_less_zero(write, *places, kind) for places in (x, w)]
    return write.add("Conv", *operands, *([bias] if bias else []), **own)


def _less_zero(write: Definition, place: int, zero: int, kind: int) -> str:
    value = write.add("Cast", write.input(place), to=kind)
    if not write.input(zero):
        return value
    offset = write.add("Cast", write.input(zero), to=kind)
    if write.shape(zero) not in ([], [1]):  # one for each kernel
        offset = write.add("Reshape", offset, write.integers(-1, *[1] * (len(write.shape(place)) - 1)))
    return write.add("Sub", value, offset)


def _exact_kind(write: Definition, weights: int) -> int:
    """The element type in which every sum is exact."""
    from onnx import TensorProto

    sizes = write.shape(weights)[1:]
    known = [size for size in sizes if size is not None]
    small = len(known) == len(sizes) and prod(known) <= _EXACT_IN_FLOAT
    return int(TensorProto.FLOAT if small else TensorProto.DOUBLE)
