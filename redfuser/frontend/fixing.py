"""Inputs that become constants: what decides a shape, an axis or a branch must be known when a model is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redfuser.errors import UsageError
from redfuser.frontend.shapes import graph_inputs

if TYPE_CHECKING:
    import numpy
    from onnx import ModelProto, ValueInfoProto


def fix_inputs(proto: ModelProto, values: Mapping[str, Sequence[float]]) -> ModelProto:
    """A copy of the model in which some inputs are constants; the model itself if there are none.

    Args:
        values: the elements of each of these inputs, in order, by the input's name.

    Raises:
        UsageError: no input has this name, or the elements don't fit its type or shape.
    """
    if not values:
        return proto
    import onnx
    from onnx import numpy_helper

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    inputs = {value.name: value for value in graph_inputs(result)}
    for name, elements in values.items():
        if name not in inputs:
            raise UsageError(f"--value: the model has no input '{name}'", f"it has: {', '.join(inputs) or 'none'}")
        result.graph.initializer.append(numpy_helper.from_array(_array(inputs[name], elements), name))
    kept = [value for value in result.graph.input if value.name not in values]
    del result.graph.input[:]
    result.graph.input.extend(kept)
    return result


def _array(value: ValueInfoProto, elements: Sequence[float]) -> numpy.ndarray[Any, Any]:
    """The elements in the type and shape that the model says; one extent may be left open."""
    import numpy
    from onnx import helper

    tensor = value.type.tensor_type
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    if dtype.kind == "O":
        raise UsageError(f"--value {value.name}: only numbers can be fixed")
    shape = [dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
    if not tensor.HasField("shape"):
        shape = [-1]
    exact = numpy.array(elements, object)  # an integer beyond 2**53 isn't a float64, one beyond 2**63 no int64
    try:
        shaped = exact.reshape(shape)
    except ValueError as error:
        stated = [
            extent if extent >= 0 else dim.dim_param for extent, dim in zip(shape, tensor.shape.dim, strict=False)
        ]
        raise UsageError(
            f"--value {value.name}: {len(elements)} elements don't fit the shape [{', '.join(map(str, stated))}]",
            "a value may leave one dimension open" if shape.count(-1) > 1 else "",
        ) from error
    if dtype.kind in "iub" or dtype.name.startswith(("int", "uint")):
        low, high = _bounds(dtype)
        if not all(low <= element <= high and element == int(element) for element in elements):
            raise UsageError(f"--value {value.name}: not every element is a {dtype}")
        return shaped.astype(numpy.uint64 if low == 0 else numpy.int64).astype(dtype)
    with numpy.errstate(over="ignore"):
        fixed = shaped.astype(numpy.float64).astype(dtype)
    if dtype.kind != "c" and not numpy.isfinite(fixed.astype(numpy.float64)).all():
        raise UsageError(f"--value {value.name}: not every element is a {dtype}")
    return fixed


def _bounds(dtype: numpy.dtype[Any]) -> tuple[int, int]:
    """Least and largest element of an integer type."""
    import ml_dtypes

    if dtype.kind == "b":
        return 0, 1
    info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)
