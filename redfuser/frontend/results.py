"""What a converter may give: tensors, of shapes that follow from those of the inputs. Imports TVM: import it lazily."""

from __future__ import annotations

from onnx import NodeProto, TypeProto
from tvm import relax

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend.element_types import held_type
from redfuser.frontend.symbols import Symbols

DATA_SHAPED = "an output whose shape depends on data"

#: What these give has elements: ONNX Runtime refuses an image smaller than their window. Of others it may be empty.
_NEVER_EMPTY = frozenset(["Conv", "ConvTranspose"])


def require_tensor(node: NodeProto, value: relax.Expr | None, declared: TypeProto | None, symbols: Symbols) -> None:
    """Refuse an output whose shape isn't known from those of the inputs, or isn't what ONNX infers for it.

    Raises:
        UnsupportedOperatorError: such an output.
        OutOfRange: a symbolic dimension would make it smaller than nothing.
    """
    info = None if value is None else value.struct_info
    kind = None if declared is None else declared.WhichOneof("value")
    what = ""
    if info is None:
        what = "one of its outputs"
    elif kind not in (None, "tensor_type") or not isinstance(info, relax.TensorStructInfo):
        what = "an output that is no tensor"
    elif info.shape is None or not symbols.cover(info.shape):
        what = DATA_SHAPED
    elif declared is not None and declared.tensor_type.HasField("shape"):
        shape = [dim.dim_value if dim.HasField("dim_value") else None for dim in declared.tensor_type.shape.dim]
        found = [symbols.simplify(extent) for extent in info.shape]
        pairs = zip(shape, found, strict=len(shape) == len(found))
        dtype = held_type(declared.tensor_type.elem_type, f"an output of node '{node.name}'")
        if len(shape) != len(found) or info.dtype != dtype or any(a is not None and a != b for a, b in pairs):
            what = f"an output of {dtype}{shape}, which TVM makes {info}"
    if what:
        raise refusal(node, what, symbols)
    for extent in () if info is None else info.shape:
        if not isinstance(symbols.simplify(extent), int):
            symbols.require_least(extent, node.op_type in _NEVER_EMPTY)


def refusal(node: NodeProto, what: str, symbols: Symbols) -> UnsupportedOperatorError:
    """The error of a node with ``what``; fixing the symbolic dimensions may be a way out."""
    names = " ".join(f"--dim {name}=N" for name in symbols.ranges)
    return UnsupportedOperatorError(
        f"operator {node.op_type} (node '{node.name}') is not supported with {what}",
        f"fix the symbolic dimensions: {names}" if names else "",
    )
