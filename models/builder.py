"""A small writer of ONNX graphs. The same calls give the same bytes, on any machine."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

#: IR version of opset 18's time: read by every runtime in use.
_IR_VERSIONS = {18: 9, 23: 11}

_ELEMENT_TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "int64": TensorProto.INT64,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}


class Builder:
    """Collects nodes and constants; values are referred to by name.

    Args:
        name: of the graph.
        opset: version of the default operator set.
    """

    def __init__(self, name: str, opset: int = 18) -> None:
        self.name = name
        self.opset = opset
        self._nodes: list[NodeProto] = []
        self._constants: list[TensorProto] = []
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []

    def input(self, name: str, shape: Sequence[int | str], dtype: str = "float32") -> str:
        """A graph input; a string is the name of a symbolic dimension."""
        self._inputs.append(helper.make_tensor_value_info(name, _ELEMENT_TYPES[dtype], list(shape)))
        return name

    def constant(self, value: np.ndarray | float | Sequence[int], dtype: str | None = None, name: str = "") -> str:
        """An initializer; integers are int64 unless said otherwise."""
        array = np.asarray(value, dtype=ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
        name = name or f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, *inputs: str, name: str = "", **attributes: object) -> str:
        """One node with one output; gives the output's name."""
        return self.nodes(operator, *inputs, outputs=1, name=name, **attributes)[0]

    def nodes(self, operator: str, *inputs: str, outputs: int, name: str = "", **attributes: object) -> tuple[str, ...]:
        """One node with several outputs; gives their names."""
        name = name or f"{operator}_{len(self._nodes)}"
        results = [name if place == 0 else f"{name}:{place}" for place in range(outputs)]
        self._nodes.append(helper.make_node(operator, list(inputs), results, name=name, **attributes))
        return tuple(results)

    def output(self, value: str, shape: Sequence[int | str], dtype: str = "float32", name: str = "output") -> None:
        """Make a value a graph output called ``name``."""
        self._nodes.append(helper.make_node("Identity", [value], [name], name=f"Identity_{name}"))
        self._outputs.append(helper.make_tensor_value_info(name, _ELEMENT_TYPES[dtype], list(shape)))

    def model(self) -> ModelProto:
        """The finished model."""
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, self._constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], producer_name="redfuser")
        model.ir_version = _IR_VERSIONS[self.opset]
        return model


def weights(generator: np.random.RandomState, *shape: int) -> np.ndarray:
    """Float32 weights, uniform with variance 1/rows.

    ``RandomState`` is frozen by NumPy, and a uniform sample involves no function of the C library: the bits
    are the same everywhere.
    """
    bound = np.sqrt(3.0 / shape[0])
    return ((generator.random_sample(shape) * 2 - 1) * bound).astype(np.float32)
