"""Operators on bytes with a scale and a zero point each, as ``onnxruntime.quantization`` writes them.

Most are what they do to real numbers, between DequantizeLinear and QuantizeLinear. Sums and products are computed in
steps of their result, as ONNX Runtime does: halves of a step, which are frequent where scales are multiples of each
other, are met exactly and so rounded alike. Its other kernels go by tables or integers and differ by one step where a
result lies about halfway between two; its softmax also rounds the inverse of its output's scale to a whole number.
"""

from __future__ import annotations

from redfuser.frontend.normalising.definition import Definition

#: What ONNX's AveragePool takes as well.
_POOLING = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")

#: From this operator set on, a softmax is along one axis alone.
_ALONG_AN_AXIS = 13


def define_add(write: Definition) -> None:
    """``A + B``; inputs: each operand with scale and zero point, scale and zero point of the sum."""
    ratios = [_kept_apart(write, write.add("Div", write.input(place + 1), write.input(6))) for place in (0, 3)]
    a, b = (write.add("Mul", _whole(write, place), ratio) for place, ratio in zip((0, 3), ratios, strict=True))
    _round(write, write.add("Add", a, b), 6)


def define_mul(write: Definition) -> None:
    """``A · B``; inputs as of the sum."""
    product = write.add("Mul", _whole(write, 0), _whole(write, 3))
    step = write.add("Div", write.add("Mul", write.input(1), write.input(4)), write.input(6))
    _round(write, write.add("Mul", product, _kept_apart(write, step)), 6)


def define_sigmoid(write: Definition) -> None:
    """``σ(X)``; inputs: X with scale and zero point, those of the result."""
    _quantise(write, write.add("Sigmoid", _real(write, 0)), 3)


def define_leaky_relu(write: Definition) -> None:
    """``X``, times alpha below 0; inputs as of the sigmoid."""
    _quantise(write, write.add("LeakyRelu", _real(write, 0), alpha=write.attribute("alpha", 0.01)), 3)


def define_softmax(write: Definition) -> None:
    """Softmax as of the operator set ``opset``: before the 13th over all axes from the given one on."""
    x, axis = _real(write, 0), write.attribute("axis", -1)
    if write.attribute("opset", _ALONG_AN_AXIS) >= _ALONG_AN_AXIS:
        _quantise(write, write.add("Softmax", x, axis=axis), 3)
        return
    rows = write.add("Flatten", x, axis=axis)
    _quantise(write, write.add("Reshape", write.add("Softmax", rows, axis=-1), write.add("Shape", x)), 3)


def define_reduce_mean(write: Definition) -> None:
    """The mean along axes; inputs as of the sigmoid."""
    axes = write.attribute("axes", ())
    mean = write.mean(_real(write, 0), *axes)
    if not write.attribute("keepdims", 1):
        mean = write.add("Squeeze", mean, write.integers(*axes))
    _quantise(write, mean, 3)


def define_global_average_pool(write: Definition) -> None:
    """The mean of each channel, (N, C, …) or, with ``channels_last``, (N, …, C); inputs as of the sigmoid."""
    rank = len(write.shape(0))
    if not rank:
        write.refuse("an input of unknown rank")
    places = range(1, rank - 1) if write.attribute("channels_last", 0) else range(2, rank)
    _quantise(write, write.mean(_real(write, 0), *places), 3)


def define_average_pool(write: Definition) -> None:
    """AveragePool, with ``channels_last`` of (N, …, C); inputs as of the sigmoid."""
    own = {name: value for name in _POOLING if (value := write.attribute(name, None)) is not None}
    x, rank = _real(write, 0), len(write.shape(0))
    if not write.attribute("channels_last", 0):
        _quantise(write, write.add("AveragePool", x, **own), 3)
        return
    first, last = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    pooled = write.add("AveragePool", write.add("Transpose", x, perm=first), **own)
    _quantise(write, write.add("Transpose", pooled, perm=last), 3)


def define_concat(write: Definition) -> None:
    """Inputs: scale and zero point of the result, then each part with its own."""
    parts = [_real(write, place) for place in range(2, len(write.node.input), 3)]
    _quantise(write, write.add("Concat", *parts, axis=write.attribute("axis", 0)), 0, element=1)


def define_where(write: Definition) -> None:
    """Inputs: the condition, X and Y with scale and zero point each, those of the result."""
    _quantise(write, write.add("Where", write.input(0), _real(write, 1), _real(write, 4)), 7, element=1)


def define_gemm(write: Definition) -> None:
    """``alpha · scales · (A·B + C)`` of integers, C in int32; real numbers without a scale of the result.

    Inputs: A (M, K) and B (K, N), each with scale and zero point, those of B one for all or one for each column; C;
    scale and zero point of the result.
    """
    _require_single(write, 1, 2)
    operands = [
        write.add("Transpose", write.input(place), perm=[1, 0]) if write.attribute(flag, 0) else write.input(place)
        for place, flag in ((0, "transA"), (3, "transB"))
    ]
    product = write.add("MatMulInteger", *operands, write.input(2), write.input(5))
    kind = write.element_type(1)
    exact = write.add("Cast", write.total(product, write.input(6)), to=kind)
    scale = write.add("Mul", write.input(1), write.input(4))
    alpha = write.attribute("alpha", 1.0)
    if alpha != 1:
        scale = write.add("Mul", scale, write.number(alpha, kind))
    if not write.input(7):
        write.add("Mul", exact, scale, out=write.output(0))
        return
    _quantise(write, write.add("Mul", exact, scale), 7)


def _real(write: Definition, place: int) -> str:
    """The real numbers that an input stands for; its scale and zero point come after it.

    Raises:
        UnsupportedOperatorError: several scales or zero points.
    """
    _require_single(write, place + 1, place + 2)
    names = [write.input(place), write.input(place + 1), write.input(place + 2)]
    return write.add("DequantizeLinear", *filter(None, names))


def _whole(write: Definition, place: int) -> str:
    """An input less its zero point, in the type of its scale.

    Raises:
        UnsupportedOperatorError: several scales or zero points.
    """
    _require_single(write, place + 1, place + 2)
    kind = write.element_type(place + 1)
    value = write.add("Cast", write.input(place), to=kind)
    zero = write.input(place + 2)
    return write.add("Sub", value, _kept_apart(write, write.add("Cast", zero, to=kind))) if zero else value


def _kept_apart(write: Definition, number: str) -> str:
    """A scalar as a vector of one number, where the node's first operand isn't a scalar.

    Scalars are written into the code, where layers that are equal otherwise would differ.
    """
    return write.add("Reshape", number, write.integers(-1)) if write.shape(0) else number


def _round(write: Definition, steps: str, place: int) -> None:
    """The node's output: steps of the scale at a place, rounded once the zero point after it is added."""
    _require_single(write, place, place + 1)
    kind, zero = write.element_type(place), write.input(place + 1)
    if zero:
        steps = write.add("Add", steps, _kept_apart(write, write.add("Cast", zero, to=kind)))
    none = write.number(0, write.element_type(place + 1 if zero else 0))
    write.add("QuantizeLinear", steps, write.number(1, kind), none, out=write.output(0))


def _quantise(write: Definition, value: str, place: int, element: int = 0) -> None:
    """The node's output: a value with the scale at a place and the zero point after it.

    Args:
        element: the input whose type the output has; it says the type of a zero point that is left out.
    """
    _require_single(write, place, place + 1)
    zero = write.input(place + 1) or write.number(0, write.element_type(element))
    write.add("QuantizeLinear", value, write.input(place), zero, out=write.output(0))


def _require_single(write: Definition, *places: int) -> None:
    for place in places:
        if write.input(place) and write.shape(place) not in ([], [1]):
            write.refuse("several scales or zero points of one operand", "quantise it as a whole")
