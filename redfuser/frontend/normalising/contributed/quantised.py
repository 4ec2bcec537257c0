"""Quantised operators of the domain com.microsoft: products, and to and from integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redfuser.frontend.normalising.definition import Definition

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

_CONSTANT = "make it an initializer"

#: Attributes that DynamicQuantizeLSTM has in common with ONNX's LSTM.
_OF_LSTM = (
    *("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "input_forget"),
)


def define_mat_mul_n_bits(write: Definition) -> None:
    """``A·W + bias`` with W (K, N) dequantised here, once: a constant as large as if it had never been quantised.

    Inputs: A (..., K); W packed along K in blocks, lowest bits first, (N, blocks, bytes); scales (N, blocks); zero
    points, packed alike or in the type of the scales, half the range where left out; nothing; bias (N).

    Raises:
        UnsupportedOperatorError: weights known on the call only, other than 2, 4 or 8 bits, or an order of groups.
    """
    if write.input(4):
        write.refuse("g_idx")
    write.attribute("accuracy_level", 0)  # how much may be lost: nothing is
    bits, block = write.attribute("bits", 4), write.attribute("block_size", 0)
    if bits not in (2, 4, 8) or block <= 0:
        write.refuse(f"{bits} bits in blocks of {block}", "quantise to 2, 4 or 8 bits")
    rows, columns = write.attribute("K", 0), write.attribute("N", 0)
    packed, scales, zeros = (write.value(place) if write.input(place) else None for place in (1, 2, 3))
    if packed is None or scales is None or (zeros is None and write.input(3)):
        write.refuse("weights, scales or zero points that are known on the call only", _CONSTANT)
    blocks = -(-rows // block)
    if packed.size * 8 != columns * blocks * block * bits or scales.size != columns * blocks:
        write.refuse(
            f"{packed.size} bytes and {scales.size} scales for a weight of {rows} x {columns}", "pack it again"
        )
    weight = _dequantised(packed, scales, zeros, (columns, blocks, block), bits)[:, :rows].T
    biased = bool(write.input(5))
    constant = write.tensor(weight.astype(scales.dtype))
    product = write.add("MatMul", write.input(0), constant, out="" if biased else write.output(0))
    if biased:
        write.add("Add", product, write.input(5), out=write.output(0))


def _dequantised(packed: Array, scales: Array, zeros: Array | None, shape: tuple[int, int, int], bits: int) -> Array:
    """``(q - zero) · scale`` in the scales' precision, float32 at least, (N, K rounded up to blocks)."""
    import numpy as np

    columns, blocks, _ = shape
    wide = np.float64 if scales.dtype == np.float64 else np.float32
    quantised: Array = _unpacked(packed.reshape(-1), bits).reshape(shape).astype(wide)
    if zeros is None:
        shift = np.full((columns, blocks), 1 << (bits - 1), wide)
    elif zeros.dtype == np.uint8:
        shift = _unpacked(zeros.reshape(columns, -1), bits)[:, :blocks].astype(wide)
    else:
        shift = zeros.reshape(columns, blocks).astype(wide)
    factor = scales.reshape(columns, blocks).astype(wide)
    quantised -= shift[..., None]
    quantised *= factor[..., None]
    return quantised.reshape(columns, -1)


def _unpacked(packed: Array, bits: int) -> Array:
    """The numbers in each byte along the last axis, lowest bits first."""
    import numpy as np

    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[..., None] >> shifts) & np.uint8((1 << bits) - 1)).reshape(*packed.shape[:-1], -1)


def define_dynamic_quantize_mat_mul(write: Definition) -> None:
    """``A·B`` with A quantised to bytes by its own range, as DynamicQuantizeLinear does it, and B's scale undone."""
    places = [f"{write.name_for('DynamicQuantizeLinear')}_{part}" for part in ("bytes", "scale", "zero")]
    data, scale, zero = write.add_many("DynamicQuantizeLinear", [write.input(0)], places)
    zeros, scales = (zero, write.input(3)), (scale, write.input(2))
    integer_product(
        write, (data, write.input(1)), zeros, scales, write.input(4), write.element_type(0), write.output(0)
    )


def define_mat_mul_integer_to_float(write: Definition) -> None:
    """``(A - zero)·(B - zero) · scale_A·scale_B + bias`` of bytes.

    Raises:
        UnsupportedOperatorError: a scale of A for each of its columns: they are summed over.
    """
    for place, name in ((2, "a_scale"), (4, "a_zero_point")):
        if write.input(place) and write.shape(place) not in ([], [1]):
            write.refuse(f"{name} of other than one number", "quantise A as a whole")
    zeros = write.input(4), write.input(5)
    scales = write.input(2), write.input(3)
    data = write.input(0), write.input(1)
    integer_product(write, data, zeros, scales, write.input(6), write.element_type(2), write.output(0))


def integer_product(
    write: Definition,
    data: tuple[str, str],
    zeros: tuple[str, str],
    scales: tuple[str, str],
    bias: str,
    kind: int,
    out: str = "",
) -> str:
    """``(A - zero)·(B - zero) · scale_A·scale_B + bias`` in floating point; the name of it.

    Scales and zero points of one number stand for the whole operand; of B, several stand for its columns.

    Args:
        data, zeros, scales: of A and B; a zero point that is empty is 0.
        bias: empty for none.
        kind: element type of the result.
        out: the result's name, if it has one.
    """
    points = list(zeros)
    while points and not points[-1]:
        points.pop()
    exact = write.add("Cast", write.add("MatMulInteger", *data, *points), to=kind)
    # A vector, if of one number: scalars are written into the code, and equal layers differ in them.
    scale = write.add("Reshape", write.add("Mul", *scales), write.integers(-1))
    product = write.add("Mul", exact, scale, out="" if bias else out)
    return write.add("Add", product, bias, out=out) if bias else product


def define_dynamic_quantize_lstm(write: Definition) -> None:
    """An LSTM with W (directions, inputs, 4·units) and R (directions, units, 4·units) dequantised here, once.

    ONNX Runtime also rounds the inputs and, step by step, the hidden states of some sequences to bytes, how many of
    them together depending on its threads. Here nothing is rounded but the weights.

    Inputs: those of LSTM, then scale and zero point of W and of R, each for a direction or for each of its columns.

    Raises:
        UnsupportedOperatorError: weights known on the call only.
    """
    places = ((1, 8, 9), (2, 10, 11))
    weights = [write.tensor(_dequantised_columns(write, *places_of_one)) for places_of_one in places]
    own = {name: value for name in _OF_LSTM if (value := write.attribute(name, None)) is not None}
    inputs = [write.input(0), *weights, *(write.input(place) for place in range(3, 8))]
    outputs = [write.output(place) for place in range(3)]
    for names in (inputs, outputs):
        while not names[-1]:
            names.pop()
    write.add_many("LSTM", inputs, outputs, **own)


def _dequantised_columns(write: Definition, data: int, scale: int, zero: int) -> Array:
    """Weights of an LSTM as ONNX has them: the gates of all units in rows."""
    import numpy as np

    whole, factors, zeros = (write.value(place) for place in (data, scale, zero))
    if whole is None or factors is None or zeros is None:
        write.refuse("weights, scales or zero points that are known on the call only", _CONSTANT)
    by_column = (len(whole), 1, -1)
    value = (whole.astype(np.float32) - zeros.reshape(by_column).astype(np.float32)) * factors.reshape(by_column)
    return np.ascontiguousarray(value.transpose(0, 2, 1))


def define_quantize(write: Definition) -> None:
    """ONNX's QuantizeLinear, whose 16-bit integers came in operator set 21."""
    _converted(write, "QuantizeLinear", 2)


def define_dequantize(write: Definition) -> None:
    """ONNX's DequantizeLinear, whose 16-bit integers came in operator set 21."""
    _converted(write, "DequantizeLinear", 0)


def _converted(write: Definition, operator: str, integers: int) -> None:
    from onnx import TensorProto

    bytes_ = (TensorProto.INT8, TensorProto.UINT8)
    kind = write.element_type(integers) if write.input(integers) else TensorProto.UINT8
    if write.opset < 21 and kind not in (*bytes_, TensorProto.INT32):
        name = TensorProto.DataType.Name(kind).lower()
        write.refuse(f"elements of {name} before operator set 21", "export the model with opset 21 or later")
    inputs = [write.input(place) for place in range(3) if write.input(place)]
    write.add_many(operator, inputs, [write.output(0)], axis=write.attribute("axis", 1))
