"""Writes the nodes that define one node, named after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from redfuser.errors import UnsupportedOperatorError

if TYPE_CHECKING:
    import numpy
    from onnx import NodeProto, TensorProto, TypeProto

    Array = numpy.ndarray[Any, Any]


#: The end of a slice that goes as far as its axis does.
END = 1 << 31


def _unknown(name: str) -> None:
    """The contents of a value where none are known."""


class Definition:
    """Nodes being written in place of one.

    Args:
        node: the one.
        type_of: type of what it reads.
        opset: version of ONNX's own operators to write in.
        value_of: contents of what it reads; None if they are known on the call only.

    Attributes:
        nodes: those written.
    """

    def __init__(
        self,
        node: NodeProto,
        type_of: Callable[[str], TypeProto],
        opset: int,
        value_of: Callable[[str], Array | None] = _unknown,
    ) -> None:
        from onnx import helper

        self.node = node
        self.nodes: list[NodeProto] = []
        self.opset = opset
        self._type_of = type_of
        self._value_of = value_of
        self._prefix = node.name or next(name for name in node.output if name)
        self._attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        self._read: set[str] = set()

    def input(self, place: int) -> str:
        """Name of an input; empty if it is left out."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def output(self, place: int) -> str:
        """Name of an output; empty if nothing reads it."""
        return self.node.output[place] if place < len(self.node.output) else ""

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute's value."""
        self._read.add(name)
        return self._attributes.get(name, default)

    def require_attributes_read(self) -> None:
        """Refuse an attribute that says something else than its default, and that the definition doesn't read."""
        for name in sorted(self._attributes.keys() - self._read):
            if self._attributes[name]:
                self.refuse(f"the attribute {name}")

    def refuse(
        self, what: str, way_out: str = "export the model without it, or write it in operators of ONNX"
    ) -> NoReturn:
        """Raise: this use isn't covered."""
        kind, name = self.node.op_type, self._prefix
        raise UnsupportedOperatorError(
            f"operator {kind} of domain '{self.node.domain}' (node '{name}') is not supported with {what}", way_out
        )

    def value(self, place: int) -> Array | None:
        """Contents of an input; None if they are known on the call only."""
        return self._value_of(self.input(place))

    def element_type(self, place: int) -> int:
        """Of an input."""
        return self._type_of(self.input(place)).tensor_type.elem_type

    def shape(self, place: int) -> list[int | None]:
        """Of an input; None for what is known on the call only."""
        dims = self._type_of(self.input(place)).tensor_type.shape.dim
        return [dim.dim_value if dim.HasField("dim_value") else None for dim in dims]

    def add(self, operator: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        """One more node; the name of its output."""
        return self.add_many(operator, inputs, [out or self.name_for(operator)], **attributes)[0]

    def add_many(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> Sequence[str]:
        """One more node with outputs of these names."""
        from onnx import helper

        name = f"{self._prefix}/{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), list(outputs), name=name, **attributes))
        return outputs

    def number(self, value: float, element_type: int) -> str:
        """A constant scalar."""
        return self.add("Constant", value=_scalar(value, element_type))

    def tensor(self, array: Array) -> str:
        """A constant."""
        from onnx import numpy_helper

        return self.add("Constant", value=numpy_helper.from_array(array))

    def integers(self, *values: int) -> str:
        """A constant list of int64."""
        return self.add("Constant", value_ints=list(values))

    def total(self, *terms: str, out: str = "") -> str:
        """The sum of those terms that aren't left out, in order."""
        first, *rest = filter(None, terms)
        for place, term in enumerate(rest):
            first = self.add("Add", first, term, out=out if place == len(rest) - 1 else "")
        return first

    def mean(self, value: str, *axes: int) -> str:
        """Over some axes, the last one unless others are given; they stay."""
        along = axes or (-1,)
        if self.opset < 18:
            return self.add("ReduceMean", value, axes=list(along), keepdims=1)
        return self.add("ReduceMean", value, self.integers(*along), keepdims=1)

    def name_for(self, operator: str) -> str:
        """A name for an output of the next node."""
        return f"{self._prefix}/{operator}_{len(self.nodes)}_output"


def _scalar(value: float, element_type: int) -> TensorProto:
    import numpy as np
    from onnx import helper, numpy_helper

    return numpy_helper.from_array(np.array(value, helper.tensor_dtype_to_np_dtype(element_type)))


class Widened:
    """Half precision computed in float32.

    Attributes:
        kind: the element type computed in.
    """

    def __init__(self, write: Definition, place: int = 0) -> None:
        from onnx import TensorProto

        self._write = write
        self._own = write.element_type(place)
        self._narrow = self._own in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
        self.kind = int(TensorProto.FLOAT) if self._narrow else self._own

    def cast(self, name: str) -> str:
        """A value in the wide type."""
        return self._write.add("Cast", name, to=self.kind) if self._narrow else name

    def place(self, output: str) -> str:
        """Where to compute an output to."""
        return f"{output}/wide" if self._narrow else output

    def round(self, name: str, output: str) -> None:
        """The output from its place."""
        if self._narrow:
            self._write.add("Cast", name, out=output, to=self._own)
