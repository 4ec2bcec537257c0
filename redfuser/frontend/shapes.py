"""The shapes of a model's inputs: extents the user gives, and names for what is known on the call only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from redfuser.errors import DynamicShapeError, ModelError, UsageError
from redfuser.signature import ANY_SIZE, DimRange

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


def graph_inputs(proto: ModelProto) -> list[ValueInfoProto]:
    """The inputs a caller feeds (before IR version 4 initializers were listed too)."""
    initializers = {tensor.name for tensor in proto.graph.initializer}
    return [value for value in proto.graph.input if value.name not in initializers]


def resolve_shapes(
    proto: ModelProto,
    dims: Mapping[str, int | DimRange] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> tuple[ModelProto, dict[str, DimRange]]:
    """A copy of the model with the extents given written in, and every other dimension named; inferred shapes go.

    An unnamed dimension is named after its place: ``x.0`` is the first dimension of input ``x``. Each is a
    dimension of its own.

    Args:
        proto: the model.
        dims: extent, or range of extents, of each symbolic dimension, by its name.
        shapes: whole shape of an input, by the input's name; names given to its dimensions hold elsewhere too.

    Returns:
        The model, and the range of each dimension that is still symbolic.

    Raises:
        UsageError: an unknown name, or a shape that contradicts the model or another one.
        DynamicShapeError: the rank of an input is unknown.
    """
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    inputs = graph_inputs(result)
    for value in inputs:
        _name_dimensions(value)
    extents, ranges = _bind_names(inputs, dict(dims or {}), shapes or {})
    for value in inputs:
        _write_shape(value, extents, (shapes or {}).get(value.name))
    _require_ranks(inputs)
    del result.graph.value_info[:]
    for output in result.graph.output:
        output.type.tensor_type.ClearField("shape")
    symbolic = dict.fromkeys(name for value in inputs for name in _symbols(value) if name)
    return result, {name: ranges.get(name, ANY_SIZE) for name in symbolic}


def _name_dimensions(value: ValueInfoProto) -> None:
    for place, dim in enumerate(value.type.tensor_type.shape.dim):
        if not dim.HasField("dim_value") and dim.dim_param in ("", "?"):
            dim.dim_param = f"{value.name}.{place}"


def _symbols(value: ValueInfoProto) -> list[str]:
    """Per dimension its symbolic name; empty where static."""
    return ["" if d.HasField("dim_value") else d.dim_param for d in value.type.tensor_type.shape.dim]


def _bind_names(
    inputs: list[ValueInfoProto], dims: Mapping[str, int | DimRange], shapes: Mapping[str, Sequence[int]]
) -> tuple[dict[str, int], dict[str, DimRange]]:
    """Extents of symbolic names, from ``dims`` and from whole shapes, and the ranges given to others."""
    by_name = {value.name: value for value in inputs}
    known = {symbol for value in inputs for symbol in _symbols(value) if symbol}
    _refuse_unknown("--dim", set(dims) - known, known)
    _refuse_unknown("--shape", set(shapes) - set(by_name), set(by_name))
    extents = {name: value for name, value in dims.items() if isinstance(value, int)}
    ranges = {name: value for name, value in dims.items() if isinstance(value, DimRange)}
    for name, extent in extents.items():
        if extent < 0:
            raise UsageError(f"--dim {name}={extent}: an extent cannot be negative")
    for name, shape in shapes.items():
        value = by_name[name]
        if value.type.tensor_type.HasField("shape") and len(_symbols(value)) != len(shape):
            raise UsageError(f"--shape {name}: the model's input has rank {len(_symbols(value))}, not {len(shape)}")
        for symbol, extent in zip(_symbols(value), shape, strict=False):
            bound = extents.setdefault(symbol, extent) if symbol else extent
            if bound != extent:
                raise UsageError(f"--shape {name}: dimension '{symbol}' is {extent} here and {bound} elsewhere")
            if symbol in ranges and extent not in ranges[symbol]:
                raise UsageError(f"--shape {name}: dimension '{symbol}' is {extent}, not in {ranges[symbol]}")
    return extents, ranges


def _refuse_unknown(option: str, unknown: set[str], known: set[str]) -> None:
    if unknown:
        listed = ", ".join(sorted(known)) or "none"
        raise UsageError(f"{option}: the model has no '{min(unknown)}'", f"it has: {listed}")


def _write_shape(value: ValueInfoProto, extents: Mapping[str, int], given: Sequence[int] | None) -> None:
    shape = value.type.tensor_type.shape
    if given is not None and not value.type.tensor_type.HasField("shape"):
        for _ in given:
            shape.dim.add()
    for place, dim in enumerate(shape.dim):
        if dim.HasField("dim_value"):
            if given is not None and given[place] != dim.dim_value:
                raise UsageError(f"--shape {value.name}: the model fixes dimension {place} to {dim.dim_value}")
        elif given is not None:
            if given[place] < 0:
                raise UsageError(f"--shape {value.name}: an extent cannot be negative")
            dim.dim_value = given[place]
        elif dim.dim_param in extents:
            dim.dim_value = extents[dim.dim_param]


def _require_ranks(inputs: list[ValueInfoProto]) -> None:
    from onnx import TensorProto

    for value in inputs:
        if not value.type.HasField("tensor_type"):
            raise ModelError(f"input '{value.name}' is not a tensor; only tensors are supported")
        kind = value.type.tensor_type.elem_type
        if kind in (TensorProto.UNDEFINED, TensorProto.STRING) or kind not in TensorProto.DataType.values():
            raise ModelError(f"input '{value.name}' holds strings, or unknown elements; only numbers are supported")
    shapeless = [value.name for value in inputs if not value.type.tensor_type.HasField("shape")]
    if shapeless:
        what = ", ".join(f"'{name}'" for name in shapeless)
        options = " ".join(f"--shape {name}=AxBx..." for name in shapeless)
        raise DynamicShapeError(f"the model doesn't say how many dimensions it takes: input {what}", f"give {options}")
