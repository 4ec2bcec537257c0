"""Constant folding of a static ONNX graph in one forward pass, with shape inference on the way.

Every value's type is inferred from its node's inputs, so ``Shape`` of anything static is a constant
and whatever depends on it folds at once. Constants are evaluated by the ONNX reference implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from redfuser.errors import ModelError

if TYPE_CHECKING:
    import numpy
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto

#: A folded constant may be this large; larger ones only where no input was smaller.
FOLD_BYTES = 1 << 20

#: Constants up to this many elements take part in shape inference.
_SHAPE_ELEMENTS = 4096

#: Not folded: random, or folding would undo a compact storage of weights.
_KEEP = frozenset(
    [
        "Bernoulli",
        "DequantizeLinear",
        "Dropout",
        "If",
        "Loop",
        "Multinomial",
        "QuantizeLinear",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
        "Scan",
    ]
)

#: Their output shape depends on values, but never exceeds rank x input.
_BOUNDED = frozenset(["NonZero", "Compress", "Unique"])


def fold_constants(proto: ModelProto) -> ModelProto:
    """Fold constants and shapes, and drop nodes that copy their input. ``value_info`` holds all types after it.

    Args:
        proto: its inputs are static. Changed in place, and returned.

    Raises:
        ModelError: a node contradicts the shapes or types of its inputs, or reads an undefined value.
    """
    folder = _Folder(proto)
    folder.run()
    return proto


class _Folder:
    """The state of the pass: what is known of each value so far."""

    def __init__(self, proto: ModelProto) -> None:
        self.proto = proto
        self.graph: GraphProto = proto.graph
        self.types: dict[str, TypeProto] = {}
        self.constants: dict[str, TensorProto] = {}
        self.copies: dict[str, str] = {}
        self.versions = {o.domain: o.version for o in proto.opset_import}

    def run(self) -> None:
        for tensor in self.graph.initializer:
            self._set_constant(tensor.name, tensor)
        for value in self.graph.input:
            self.types.setdefault(value.name, value.type)
        pending = list(self.graph.node)[::-1]
        kept: list[NodeProto] = []
        while pending:
            node = pending.pop()
            self._rename_inputs(node)
            if node.op_type == "If" and node.input[0] in self.constants:
                pending += self._taken_branch(node)[::-1]
                continue
            self._infer(node)
            if not self._fold(node) and not self._is_copy(node):
                kept.append(node)
        kept += self._restore_outputs()
        del self.graph.node[:]
        self.graph.node.extend(kept)
        self._write_types()

    def _set_constant(self, name: str, tensor: TensorProto) -> None:
        from onnx import helper

        self.constants[name] = tensor
        self.types[name] = helper.make_tensor_type_proto(tensor.data_type, list(tensor.dims))

    def _rename_inputs(self, node: NodeProto) -> None:
        for place, name in enumerate(node.input):
            if name in self.copies:
                node.input[place] = self.copies[name]
            elif name and name not in self.types:
                raise ModelError(f"node '{node.name}' ({node.op_type}) reads '{name}', which nothing defines")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_free(attribute.g, self.copies)

    def _infer(self, node: NodeProto) -> None:
        import onnx

        types = {name: self.types[name] for name in node.input if name}
        if not all(type_.WhichOneof("value") for type_ in types.values()):
            self.types.update((name, onnx.TypeProto()) for name in node.output if name)
            return
        data = {name: self.constants[name] for name in types if self._elements(name) <= _SHAPE_ELEMENTS}
        try:
            schema = onnx.defs.get_schema(node.op_type, self.versions.get(node.domain, 1), node.domain)
            inferred = onnx.shape_inference.infer_node_outputs(
                schema, node, types, data, opset_imports=list(self.proto.opset_import), ir_version=self.proto.ir_version
            )
        except onnx.defs.SchemaError:
            inferred = {}  # an operator ONNX doesn't know: the importer refuses it by name
        except onnx.shape_inference.InferenceError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ModelError(f"node '{node.name}' ({node.op_type}) doesn't fit its inputs: {reason}") from error
        for name in node.output:
            if name:
                self.types[name] = inferred.get(name, onnx.TypeProto())

    def _elements(self, name: str) -> int:
        """Number of elements of a constant; huge if it isn't one."""
        return _count(self.constants[name].dims) if name in self.constants else 1 << 62

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The static shape of a value, if known."""
        tensor = self.types[name].tensor_type if name in self.types else None
        if tensor is None or not tensor.HasField("shape") or not all(d.HasField("dim_value") for d in tensor.shape.dim):
            return None
        return tuple(d.dim_value for d in tensor.shape.dim)

    def _fold(self, node: NodeProto) -> bool:
        """Turn the node's outputs into initializers, if all its inputs are constant."""
        if node.op_type in _KEEP or node.domain not in ("", "ai.onnx") or any(a.HasField("g") for a in node.attribute):
            return False
        if node.op_type == "Shape":
            values = self._evaluate_shape(node)
        elif all(map(self._is_constant, node.input)) and self._affordable(node):
            values = self._evaluate(node)
        else:
            return False
        if values is None:
            return False
        for name, tensor in zip(node.output, values, strict=False):
            if name:
                tensor.name = name
                self.graph.initializer.append(tensor)
                self._set_constant(name, tensor)
        return True

    def _is_constant(self, name: str) -> bool:
        """Missing, constant, or empty: a tensor without elements is as good as known."""
        return not name or name in self.constants or 0 in (self.shape(name) or ())

    def _value(self, name: str) -> numpy.ndarray:
        import numpy
        from onnx import helper, numpy_helper

        if name in self.constants:
            return numpy_helper.to_array(self.constants[name])
        dtype = helper.tensor_dtype_to_np_dtype(self.types[name].tensor_type.elem_type)
        return numpy.zeros(self.shape(name) or (), dtype)

    def _evaluate_shape(self, node: NodeProto) -> list[TensorProto] | None:
        import numpy
        from onnx import numpy_helper

        shape = self.shape(node.input[0])
        if shape is None:
            return None
        bounds = {a.name: a.i for a in node.attribute}
        part = shape[slice(bounds.get("start"), bounds.get("end"))]
        return [numpy_helper.from_array(numpy.array(part, numpy.int64))]

    def _affordable(self, node: NodeProto) -> bool:
        """Whether the outputs are known to be small; TVM has no constants without elements."""
        if node.op_type == "Constant":
            return True
        inputs = [self.constants[name] for name in node.input if name in self.constants]
        largest = max([_bytes(t.data_type, _count(t.dims)) for t in inputs], default=0)
        if node.op_type in _BOUNDED:
            return largest <= FOLD_BYTES
        for name in filter(None, node.output):
            shape = self.shape(name)
            if (
                shape is None
                or 0 in shape
                or _bytes(self.types[name].tensor_type.elem_type, _count(shape)) > max(FOLD_BYTES, largest)
            ):
                return False
        return True

    def _evaluate(self, node: NodeProto) -> list[TensorProto] | None:
        """The node's outputs by the reference implementation; None where it can't."""
        import numpy
        from onnx import helper, numpy_helper
        from onnx.reference import ReferenceEvaluator

        names = list(dict.fromkeys(filter(None, node.input)))
        outputs = [name for name in node.output if name]
        graph = helper.make_graph(
            [node],
            "constant",
            [helper.make_value_info(name, self.types[name]) for name in names],
            [helper.make_value_info(name, self.types[name]) for name in outputs],
        )
        model = helper.make_model(graph, opset_imports=list(self.proto.opset_import))
        feeds = {name: self._value(name) for name in names}
        try:
            with numpy.errstate(all="ignore"):
                results = ReferenceEvaluator(model).run(None, feeds)
        except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError, KeyError, AttributeError):
            return None  # an operator the reference lacks stays in the graph
        tensors = [numpy_helper.from_array(numpy.asarray(result)) for result in results]
        by_name = dict(zip(outputs, tensors, strict=True))
        if any(t.data_type != self.types[n].tensor_type.elem_type for n, t in by_name.items()):
            return None
        return [by_name.get(name, tensors[0]) for name in node.output]

    def _is_copy(self, node: NodeProto) -> bool:
        """Whether the node only hands on its first input; its readers then read that."""
        standard = node.domain in ("", "ai.onnx")
        if not standard or not node.input or any(node.output[1:]) or not self._copies_input(node):
            return False
        self.copies[node.output[0]] = node.input[0]
        return True

    def _copies_input(self, node: NodeProto) -> bool:
        source, target = node.input[0], node.output[0]
        same_shape = self.shape(source) is not None and self.shape(source) == self.shape(target)
        if node.op_type == "Identity":
            return True
        if node.op_type == "Dropout":
            training = node.input[2] if len(node.input) > 2 else ""
            return not training or (training in self.constants and not _scalar(self.constants[training]))
        if node.op_type == "Cast":
            return self.types[source].tensor_type.elem_type == self.types[target].tensor_type.elem_type
        if node.op_type in ("Reshape", "Expand", "Flatten", "Squeeze", "Unsqueeze"):
            return same_shape
        if node.op_type == "Concat":
            return len(node.input) == 1
        if node.op_type == "Transpose":
            order = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
            return order is not None and order == sorted(order)
        return False

    def _taken_branch(self, node: NodeProto) -> list[NodeProto]:
        """The nodes of the branch that a constant condition takes, with the If's output names."""
        import onnx

        wanted = "then_branch" if _scalar(self.constants[node.input[0]]) else "else_branch"
        branch = next(a.g for a in node.attribute if a.name == wanted)
        for tensor in branch.initializer:
            self.graph.initializer.append(tensor)
            self._set_constant(tensor.name, tensor)
        copies = [
            onnx.helper.make_node("Identity", [inner.name], [outer], name=f"{node.name}/{outer}")
            for inner, outer in zip(branch.output, node.output, strict=True)
        ]
        return [*branch.node, *copies]

    def _restore_outputs(self) -> Iterator[NodeProto]:
        """A graph output that is a mere copy keeps its name through an Identity."""
        from onnx import helper

        for output in self.graph.output:
            if output.name in self.copies:
                source = self.copies[output.name]
                yield helper.make_node("Identity", [source], [output.name], name=f"output/{output.name}")

    def _write_types(self) -> None:
        from onnx import helper

        inputs = {value.name for value in self.graph.input}
        outputs = {value.name: value for value in self.graph.output}
        del self.graph.value_info[:]
        for node in self.graph.node:
            for name in filter(None, node.output):
                if name in outputs:
                    if self.types[name].WhichOneof("value"):
                        outputs[name].type.CopyFrom(self.types[name])
                elif name not in inputs:
                    self.graph.value_info.append(helper.make_value_info(name, self.types[name]))


def _rename_free(graph: GraphProto, names: dict[str, str]) -> None:
    """Rename what a subgraph reads from outside."""
    for node in graph.node:
        for place, name in enumerate(node.input):
            node.input[place] = names.get(name, name)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename_free(attribute.g, names)


def _count(dims: Iterable[int]) -> int:
    count = 1
    for dim in dims:
        count *= dim
    return count


def _bytes(elem_type: int, count: int) -> int:
    from onnx import helper

    return count * helper.tensor_dtype_to_np_dtype(elem_type).itemsize


def _scalar(tensor: TensorProto) -> numpy.generic:
    from onnx import numpy_helper

    return numpy_helper.to_array(tensor).reshape(-1)[0]
