"""Graphs and arrays in float64, and large arrays that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from onnx import AttributeProto, GraphProto, NodeProto, TensorProto

    Array = np.ndarray[Any, Any]


class Arrays(dict[str, Any]):
    """Arrays by name; those of large initializers are made when they are asked for, and not kept.

    Args:
        wide: whether they are made in float64.
    """

    def __init__(self, wide: bool, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self.wide = wide

    def __getitem__(self, name: str) -> Array:
        from onnx import TensorProto, numpy_helper

        value: Any = super().__getitem__(name)
        if not isinstance(value, TensorProto):
            return value
        array = numpy_helper.to_array(value)
        return widened(array) if self.wide else array

    def get(self, name: str, default: Any = None) -> Any:
        known = name in self
        return self[name] if known else default

    def with_more(self, more: Mapping[str, Any]) -> Arrays:
        """A copy with further arrays."""
        copy = Arrays(self.wide, self)
        copy |= more
        return copy


def widened(array: Array) -> Array:
    """Floating point as float64; other types, 8-bit floats included, unchanged."""
    import numpy as np

    return array.astype(np.float64) if str(array.dtype) in ("float16", "bfloat16", "float32") else array


def widen_graph(graph: GraphProto, constants: Sequence[TensorProto]) -> None:
    """These constants, casts and subgraphs in float64; what was inferred about types is dropped."""
    import onnx

    del graph.value_info[:]
    for tensor in constants:
        wide = widened(onnx.numpy_helper.to_array(tensor))
        tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))
    for value in [*graph.input, *graph.output]:
        if _is_narrow(value.type.tensor_type.elem_type):
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    for node in graph.node:
        attributes = list(_widen_attributes(node))
        del node.attribute[:]
        node.attribute.extend(attributes)


def _is_narrow(element_type: int) -> bool:
    from onnx import TensorProto

    return element_type in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)


def _widen_attributes(node: NodeProto) -> Iterator[AttributeProto]:
    """The node's attributes, rewritten; how precisely to compute is no longer asked for."""
    import numpy as np
    import onnx

    for attribute in node.attribute:
        if attribute.name == "softmax_precision":
            continue
        if attribute.name in ("to", "dtype") and _is_narrow(attribute.i):
            attribute.i = onnx.TensorProto.DOUBLE
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            number = np.array(onnx.helper.get_attribute_value(attribute), np.float64)
            attribute = onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(number))
        elif attribute.HasField("t"):
            attribute.t.CopyFrom(onnx.numpy_helper.from_array(widened(onnx.numpy_helper.to_array(attribute.t))))
        elif attribute.HasField("g"):
            widen_graph(attribute.g, attribute.g.initializer)
        yield attribute
    if node.op_type == "ConstantOfShape" and not node.attribute:
        yield onnx.helper.make_attribute("value", onnx.numpy_helper.from_array(np.zeros(1)))
