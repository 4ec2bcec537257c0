"""An operator of our own: what ONNX has no operator for, and would take copies of large tensors to spell out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    from onnx import NodeProto, TypeProto

    Array = numpy.ndarray[Any, Any]

#: Of such operators. A model's own nodes in it are refused as those of any other unknown domain.
DOMAIN = "redfuser.own"

#: ``Append(past, new, before, room)``: of each sequence its first ``before`` rows of the past, then the new ones,
#: then 0. Past (B, G, P, D), new (B, G, S, D), before (B, 1), room a scalar; gives (B, G, room, D). A past of open size
#: is one without room: it is as long as all but the new rows.
APPEND = "Append"


def infer_append(node: NodeProto, types: Mapping[str, TypeProto], room: Array | None) -> TypeProto:
    """The type of its output; None stands for a room that is known on the call only."""
    import onnx

    result = onnx.TypeProto()
    result.CopyFrom(types[node.input[1]])
    rows = result.tensor_type.shape.dim[2]
    if room is None:
        rows.ClearField("value")
    else:
        rows.dim_value = int(room.item())
    return result
