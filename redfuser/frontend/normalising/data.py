"""Data of large initializers, out of the way of what copies a whole model, or hands it to ONNX's C++.

That serialises the model, which protobuf doesn't do beyond 2 GiB; nothing there looks at a large tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.frontend.model import MIB

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnx import ModelProto, TensorProto


def set_aside(proto: ModelProto) -> dict[str, bytes]:
    """Take the data out of large initializers.

    Returns:
        The data, by the initializer's name, for :func:`put_back`.
    """
    data: dict[str, bytes] = {}
    for tensor in proto.graph.initializer:
        if is_large(tensor):
            data[tensor.name] = tensor.raw_data
            tensor.ClearField("raw_data")
    return data


def put_back(proto: ModelProto, data: dict[str, bytes]) -> None:
    """Give initializers their data back; it is used up."""
    for tensor in proto.graph.initializer:
        if tensor.name in data:
            tensor.raw_data = data.pop(tensor.name)


def without_data(proto: ModelProto) -> ModelProto:
    """A copy in which large initializers have no data."""
    import onnx

    copy = onnx.ModelProto()
    copy_fields(proto, copy, "graph")
    copy_fields(proto.graph, copy.graph, "initializer")
    for tensor in proto.graph.initializer:
        added = copy.graph.initializer.add()
        if is_large(tensor):
            copy_fields(tensor, added, "raw_data")
        else:
            added.CopyFrom(tensor)
    return copy


def is_large(tensor: TensorProto) -> bool:
    """Whether a tensor's data is worth setting aside."""
    return len(tensor.raw_data) > MIB


def copy_fields(source: Message, target: Message, but: str) -> None:
    """Copy all fields but one."""
    for field, value in source.ListFields():
        if field.name == but:
            continue
        if isinstance(value, str | bytes | int | float):
            setattr(target, field.name, value)
        else:
            getattr(target, field.name).MergeFrom(value)
