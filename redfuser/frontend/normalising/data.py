"""Data of large initializers, out of the way of what hands a whole model to ONNX's C++.

That serialises the model, which protobuf doesn't do beyond 2 GiB; nothing there looks at a large tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.frontend.model import MIB

if TYPE_CHECKING:
    from onnx import ModelProto


def set_aside(proto: ModelProto) -> dict[str, bytes]:
    """Take the data out of large initializers.

    Returns:
        The data, by the initializer's name, for :func:`put_back`.
    """
    data: dict[str, bytes] = {}
    for tensor in proto.graph.initializer:
        if len(tensor.raw_data) > MIB:
            data[tensor.name] = tensor.raw_data
            tensor.ClearField("raw_data")
    return data


def put_back(proto: ModelProto, data: dict[str, bytes]) -> None:
    """Give initializers their data back; it is used up."""
    for tensor in proto.graph.initializer:
        if tensor.name in data:
            tensor.raw_data = data.pop(tensor.name)
