"""Element types of ONNX: in which of TVM's each is held, and which values it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redfuser.errors import UnsupportedOperatorError

if TYPE_CHECKING:
    import numpy
    from onnx import TensorProto

    Array = numpy.ndarray[Any, Any]

#: Types that are no whole bytes are held in the next that is: element by element, not packed.
_HELD = {
    "int2": "int8",
    "int4": "int8",
    "uint2": "uint8",
    "uint4": "uint8",
    "float4_e2m1fn": "float8_e4m3fn",
}

_LIMITS = {"int2": (-2, 1), "int4": (-8, 7), "uint2": (0, 3), "uint4": (0, 15)}

_SUPPORTED = frozenset(
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("bfloat16", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
    ]
)


def element_type(kind: int) -> str:
    """NumPy's name of an ONNX element type: ``int4``, ``bfloat16``, ``float8_e4m3fn`` …"""
    from onnx import helper

    return str(helper.tensor_dtype_to_np_dtype(kind))


def held_type(kind: int, what: str) -> str:
    """The type that values of an ONNX element type have in TVM.

    Args:
        kind: of ``onnx.TensorProto.DataType``.
        what: the value, for the message.

    Raises:
        UnsupportedOperatorError: it has none.
    """
    name = element_type(kind)
    held = _HELD.get(name, name)
    if held not in _SUPPORTED:
        raise UnsupportedOperatorError(f"{what} holds {name}, which is not supported", "cast it in the model")
    return held


def is_narrow(name: str) -> bool:
    """Whether a type, by NumPy's name, takes less than a byte."""
    return name in _HELD


def held_array(tensor: TensorProto, data: Array | None = None) -> Array:
    """The contents of a constant, in the type it is held in.

    Args:
        data: its bytes, where the tensor lacks them; what is given is a view of them if they can stay as they are.
    """
    from onnx import TensorProto, numpy_helper

    from redfuser.expr.evaluate import numpy_dtype

    held = held_type(tensor.data_type, f"constant '{tensor.name}'")
    if data is not None and element_type(tensor.data_type) == held:
        return data.view(numpy_dtype(held)).reshape(tensor.dims)
    if data is not None:
        tensor = TensorProto(data_type=tensor.data_type, dims=tensor.dims, raw_data=data.tobytes())
    array = numpy_helper.to_array(tensor)
    return array if str(array.dtype) == held else array.astype(numpy_dtype(held))


def integer_limits(name: str) -> tuple[int, int]:
    """The least and the greatest value of an integer type, by NumPy's name."""
    import numpy

    if name in _LIMITS:
        return _LIMITS[name]
    limits = numpy.iinfo(name)
    return int(limits.min), int(limits.max)
