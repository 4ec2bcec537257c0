"""What is known of each value of a static ONNX graph: its type, and its contents if it is constant."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from redfuser.errors import ModelError
from redfuser.frontend.normalising.own import DOMAIN as OWN_DOMAIN
from redfuser.frontend.normalising.own import infer_append

if TYPE_CHECKING:
    import numpy
    from onnx import ModelProto, NodeProto, TensorProto, TypeProto
    from onnx.defs import OpSchema

    Array = numpy.ndarray[Any, Any]

#: Constants up to this many elements take part in shape inference.
_SHAPE_ELEMENTS = 4096


class GraphValues:
    """Filled in the order of the nodes.

    Args:
        proto: its inputs are static.
    """

    def __init__(self, proto: ModelProto) -> None:
        self.types: dict[str, TypeProto] = {}
        self.constants: dict[str, TensorProto] = {}
        self._imports = list(proto.opset_import)
        self._versions = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in self._imports}
        self._ir_version = proto.ir_version
        for tensor in proto.graph.initializer:
            self.set_constant(tensor)
        for value in proto.graph.input:
            self.types.setdefault(value.name, value.type)

    def set_constant(self, tensor: TensorProto) -> None:
        """A value's contents become known."""
        from onnx import helper

        self.constants[tensor.name] = tensor
        self.types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))

    def infer(self, node: NodeProto) -> None:
        """Types of a node's outputs; an operator that ONNX doesn't define leaves them unknown.

        Raises:
            ModelError: the node contradicts its inputs, or reads a value that nothing defines.
        """
        import onnx

        for name in filter(None, node.input):
            if name not in self.types:
                raise ModelError(f"node '{node.name}' ({node.op_type}) reads '{name}', which nothing defines")
        inferred = self._inferred(node)
        for name in filter(None, node.output):
            self.types[name] = inferred.get(name, onnx.TypeProto())

    def _inferred(self, node: NodeProto) -> dict[str, TypeProto]:
        import onnx

        types = {name: self.types[name] for name in node.input if name}
        if not all(known.WhichOneof("value") for known in types.values()):
            return {}
        data = {name: self.constants[name] for name in types if self._is_small(name)}
        if node.domain == OWN_DOMAIN:
            return {node.output[0]: infer_append(node, types, self.known(node.input[3]))}
        domain = "" if node.domain == "ai.onnx" else node.domain
        try:
            schema = _schema(node.op_type, self._versions.get(domain, 1), domain, types.values())
        except onnx.defs.SchemaError:
            return {}  # the importer refuses it by name
        try:
            return onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=self._imports, ir_version=self._ir_version
            )
        except ValueError:
            return {}  # sequences and optionals of unknown elements, which the importer refuses
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise ModelError(f"node '{node.name}' ({node.op_type}) doesn't fit its inputs: {reason}") from error

    def _is_small(self, name: str) -> bool:
        return name in self.constants and math.prod(self.constants[name].dims) <= _SHAPE_ELEMENTS

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The static shape of a value, if known."""
        tensor = self.types[name].tensor_type if name in self.types else None
        if tensor is None or not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
            return None
        return tuple(d.dim_value for d in tensor.shape.dim)

    def element_type(self, name: str) -> int:
        """The element type of a value; 0 if unknown."""
        return self.types[name].tensor_type.elem_type

    def is_known(self, name: str) -> bool:
        """Missing, constant, or empty: a tensor without elements is as good as known."""
        return not name or name in self.constants or 0 in (self.shape(name) or ())

    def array(self, name: str) -> Array:
        """The contents of a known value."""
        import numpy
        from onnx import helper, numpy_helper

        if name in self.constants:
            return numpy_helper.to_array(self.constants[name])
        dtype = helper.tensor_dtype_to_np_dtype(self.element_type(name))
        return numpy.zeros(self.shape(name) or (), dtype)

    def known(self, name: str) -> Array | None:
        """The contents of a constant; None of anything else."""
        return self.array(name) if name in self.constants else None

    def bytes(self, name: str, shape: Iterable[int]) -> int:
        """Size of a value if it had this shape."""
        from onnx import helper

        return math.prod(shape) * helper.tensor_dtype_to_np_dtype(self.element_type(name)).itemsize


def _schema(operator: str, version: int, domain: str, types: Iterable[TypeProto]) -> OpSchema:
    """The operator's own version, or of bfloat16 its latest if that alone takes these.

    PyTorch writes convolutions and others in bfloat16 under operator sets that have them in the older types only; what
    they compute is the same.

    Raises:
        SchemaError: ONNX doesn't define it.
    """
    from onnx import TensorProto, defs

    own = defs.get_schema(operator, version, domain)
    if all(kind.tensor_type.elem_type != TensorProto.BFLOAT16 for kind in types) or _takes_bfloat16(own):
        return own
    latest = defs.get_schema(operator, domain)
    return latest if _takes_bfloat16(latest) else own


def _takes_bfloat16(schema: OpSchema) -> bool:
    return any("tensor(bfloat16)" in given.types for given in schema.inputs)
