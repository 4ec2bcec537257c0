"""What a model says of its outputs, held against what its graph computes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from redfuser.errors import ModelError

if TYPE_CHECKING:
    from onnx import ValueInfoProto


def require_outputs(
    declared: Iterable[ValueInfoProto], computed: Iterable[ValueInfoProto], inputs: Iterable[ValueInfoProto]
) -> None:
    """Refuse outputs of another element type, rank or size than declared.

    What either side leaves open contradicts nothing: an element type that isn't said, a dimension with a name. Nor do
    sizes where an input's are open: a model whose inputs were opened after the export still says those it was
    exported with, and means any.

    Args:
        declared: the outputs of the model's file.
        computed: the same after inference.
        inputs: those of the model's file.

    Raises:
        ModelError: names the output, what is said of it and what it is.
    """
    types = {value.name: value for value in computed}
    sized = all(map(_is_sized, inputs))
    for value in declared:
        found = types.get(value.name)
        if found is not None and _contradict(value, found, sized):
            raise ModelError(
                f"output '{value.name}' is declared as {_described(value)}, but the graph computes {_described(found)}",
                "correct what the model says of this output, or leave it out",
            )


def _is_sized(value: ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)


def _contradict(declared: ValueInfoProto, found: ValueInfoProto, sized: bool) -> bool:
    if not (declared.type.HasField("tensor_type") and found.type.HasField("tensor_type")):
        return False
    one, other = declared.type.tensor_type, found.type.tensor_type
    if one.elem_type and other.elem_type and one.elem_type != other.elem_type:
        return True
    if not (one.HasField("shape") and other.HasField("shape")):
        return False
    if len(one.shape.dim) != len(other.shape.dim):
        return True
    sizes = ((a, b) for a, b in zip(one.shape.dim, other.shape.dim, strict=True) if sized)
    return any(a.HasField("dim_value") and b.HasField("dim_value") and a.dim_value != b.dim_value for a, b in sizes)


def _described(value: ValueInfoProto) -> str:
    from onnx import TensorProto

    tensor = value.type.tensor_type
    kind = TensorProto.DataType.Name(tensor.elem_type).lower() if tensor.elem_type else "a tensor"
    if not tensor.HasField("shape"):
        return kind
    extents = (str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim)
    return f"{kind}[{', '.join(extents)}]"
