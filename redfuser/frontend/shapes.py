"""Make a dynamic model static: write the extents the user gives into the graph's inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from redfuser.errors import DynamicShapeError, ModelError, UsageError

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto


def graph_inputs(proto: ModelProto) -> list[ValueInfoProto]:
    """The inputs a caller feeds (before IR version 4 initializers were listed too)."""
    initializers = {tensor.name for tensor in proto.graph.initializer}
    return [value for value in proto.graph.input if value.name not in initializers]


def make_static(
    proto: ModelProto, dims: Mapping[str, int] | None = None, shapes: Mapping[str, Sequence[int]] | None = None
) -> ModelProto:
    """A copy of the model whose inputs have static shapes; inferred shapes are dropped.

    Args:
        proto: the model.
        dims: extent of each symbolic dimension, by its name.
        shapes: whole shape of an input, by the input's name; names given to its dimensions hold elsewhere too.

    Raises:
        UsageError: an unknown name, or a shape that contradicts the model or another one.
        DynamicShapeError: some dimension is still unknown; the hint lists what to give.
    """
    import onnx

    result = onnx.ModelProto()
    result.CopyFrom(proto)
    inputs = graph_inputs(result)
    extents = _bind_names(inputs, dict(dims or {}), shapes or {})
    for value in inputs:
        _write_shape(value, extents, (shapes or {}).get(value.name))
    _require_static(inputs)
    del result.graph.value_info[:]
    for output in result.graph.output:
        output.type.tensor_type.ClearField("shape")
    return result


def _symbols(value: ValueInfoProto) -> list[str]:
    """Per dimension its symbolic name; empty where static or unnamed."""
    shape = value.type.tensor_type.shape
    return ["" if d.HasField("dim_value") or d.dim_param == "?" else d.dim_param for d in shape.dim]


def _bind_names(
    inputs: list[ValueInfoProto], extents: dict[str, int], shapes: Mapping[str, Sequence[int]]
) -> dict[str, int]:
    """Extents of all symbolic names, from ``dims`` and from whole shapes."""
    by_name = {value.name: value for value in inputs}
    known = {symbol for value in inputs for symbol in _symbols(value) if symbol}
    _refuse_unknown("--dim", set(extents) - known, known)
    _refuse_unknown("--shape", set(shapes) - set(by_name), set(by_name))
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
    return extents


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


def _require_static(inputs: list[ValueInfoProto]) -> None:
    """Refuse what is still dynamic. A shape asked for whole also gives its named dimensions."""
    from onnx import TensorProto

    unknown: dict[str, None] = {}
    whole: dict[str, None] = {}
    for value in inputs:
        if not value.type.HasField("tensor_type"):
            raise ModelError(f"input '{value.name}' is not a tensor; only tensors are supported")
        kind = value.type.tensor_type.elem_type
        if kind in (TensorProto.UNDEFINED, TensorProto.STRING) or kind not in TensorProto.DataType.values():
            raise ModelError(f"input '{value.name}' holds strings, or unknown elements; only numbers are supported")
        dims = zip(value.type.tensor_type.shape.dim, _symbols(value), strict=True)
        missing = [symbol for dim, symbol in dims if not dim.HasField("dim_value")]
        if not value.type.tensor_type.HasField("shape") or "" in missing:
            whole[value.name] = None
        unknown.update(dict.fromkeys(missing))
    if not unknown and not whole:
        return
    implied = {symbol for value in inputs if value.name in whole for symbol in _symbols(value)}
    names = [symbol for symbol in unknown if symbol not in implied]
    what = ", ".join([f"'{name}'" for name in names] + [f"the shape of input '{name}'" for name in whole])
    options = [f"--dim {name}=N" for name in names] + [f"--shape {name}=AxBx..." for name in whole]
    raise DynamicShapeError(f"the model's shapes are dynamic: {what}", "give " + " ".join(options))
