"""Constant folding of a static ONNX graph in one forward pass, with shape inference on the way.

Every value's type is inferred from its node's inputs, so ``Shape`` of anything static is a constant
and whatever depends on it folds at once. Constants are evaluated by the ONNX reference implementation.
On the way an If with a known condition becomes the branch taken, an operator without a converter its definition.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.branches import take_branch
from redfuser.frontend.normalising.copies import copies_input
from redfuser.frontend.normalising.deprecated import define_withdrawn, is_withdrawn
from redfuser.frontend.normalising.expansion import expand, rename_inner
from redfuser.frontend.normalising.mixed_norms import define_mixed, is_mixed
from redfuser.frontend.normalising.names import FreshNames, rename_reads
from redfuser.frontend.normalising.values import GraphValues

if TYPE_CHECKING:
    import numpy
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

    Array = numpy.ndarray[Any, Any]

#: A folded constant may be this large; larger ones only where no constant input was smaller.
FOLD_BYTES = 1 << 20

_DEFAULT_DOMAINS = ("", "ai.onnx")

#: Not folded: random, or folding would undo a compact storage of weights.
_KEEP = frozenset(
    [
        "Bernoulli",
        "DequantizeLinear",
        "Dropout",
        "Multinomial",
        "QuantizeLinear",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    ]
)

#: Their output shape depends on values, but never exceeds rank x input.
_BOUNDED = frozenset(["NonZero", "Compress", "Unique"])


def fold_constants(proto: ModelProto, kept: Collection[str] = ()) -> ModelProto:
    """Fold constants and shapes; drop nodes that copy their input. ``value_info`` holds all types after it.

    Args:
        proto: its inputs are static. Changed in place, and returned.
        kept: operators that aren't replaced by their definition yet.

    Raises:
        ModelError: a node contradicts the shapes or types of its inputs, or reads an undefined value.
    """
    _Folder(proto, kept).run()
    return proto


class _Folder:
    """The state of the pass."""

    def __init__(self, proto: ModelProto, kept: Collection[str]) -> None:
        self.proto = proto
        self.kept = kept
        self.graph: GraphProto = proto.graph
        self.values = GraphValues(proto)
        self.fresh = FreshNames(proto.graph)
        self.copies: dict[str, str] = {}

    def run(self) -> None:
        pending = list(self.graph.node)[::-1]
        kept: list[NodeProto] = []
        while pending:
            node = pending.pop()
            rename_reads(node, self.copies)
            if node.op_type == "If" and node.input[0] in self.values.constants:
                tensors, nodes = take_branch(node, bool(self.values.array(node.input[0]).all()), self.fresh)
                for tensor in tensors:
                    self._add_constant(tensor)
                pending += nodes[::-1]
                continue
            written = self._uninferable(node)
            if written is not None:
                rename_inner(written, node, self.fresh)
                pending += written[::-1]
                continue
            self.values.infer(node)
            folded = self._fold(node)
            whole = folded is not None or node.op_type in self.kept
            definition = None if whole else expand(node, self.values, self.proto, self.fresh)
            if folded is not None:
                self._add_constants(node, folded)
            elif definition is not None:
                pending += definition[::-1]
            elif copies_input(node, self.values):
                self.copies[node.output[0]] = node.input[0]
            else:
                kept.append(node)
        kept += self._restore_outputs()
        del self.graph.node[:]
        self.graph.node.extend(kept)
        self._write_types()

    def _uninferable(self, node: NodeProto) -> list[NodeProto] | None:
        """What defines a node that ONNX's inference refuses, though it is right; None of all others."""
        type_of, opset = self.values.types.__getitem__, opset_of(self.proto)
        if is_withdrawn(node, opset):
            return define_withdrawn(node, type_of, opset)
        known = all(name in self.values.types for name in node.input)
        return define_mixed(node, type_of, opset) if known and is_mixed(node, self.values.element_type) else None

    def _fold(self, node: NodeProto) -> list[Array] | None:
        """The node's outputs, if all its inputs are constant; None to keep it."""
        has_subgraph = any(attribute.HasField("g") for attribute in node.attribute)
        if node.op_type in _KEEP or node.domain not in _DEFAULT_DOMAINS or has_subgraph:
            return None
        if node.op_type in ("Shape", "Size"):
            return self._shape(node)
        if all(map(self.values.is_known, node.input)) and self._is_affordable(node):
            return self._evaluate(node)
        return None

    def _shape(self, node: NodeProto) -> list[Array] | None:
        import numpy

        shape = self.values.shape(node.input[0])
        if shape is None:
            return None
        if node.op_type == "Size":
            return [numpy.array(math.prod(shape), numpy.int64)]
        bounds = {attribute.name: attribute.i for attribute in node.attribute}
        return [numpy.array(shape[slice(bounds.get("start"), bounds.get("end"))], numpy.int64)]

    def _is_affordable(self, node: NodeProto) -> bool:
        """Whether the outputs are known to be small; TVM has no constants without elements."""
        if node.op_type == "Constant":
            return True
        values = self.values
        known = [name for name in node.input if name in values.constants]
        largest = max([values.bytes(name, values.constants[name].dims) for name in known], default=0)
        if node.op_type in _BOUNDED:
            return largest <= FOLD_BYTES
        for name in filter(None, node.output):
            shape = values.shape(name)
            if shape is None or 0 in shape or values.bytes(name, shape) > max(FOLD_BYTES, largest):
                return False
        return True

    def _evaluate(self, node: NodeProto) -> list[Array] | None:
        """The named outputs by the reference implementation; None where it can't."""
        import numpy
        from onnx import helper
        from onnx.reference import ReferenceEvaluator

        types = self.values.types
        names = list(dict.fromkeys(filter(None, node.input)))
        outputs = [name for name in node.output if name]
        inputs, results = ([helper.make_value_info(name, types[name]) for name in group] for group in (names, outputs))
        graph = helper.make_graph([node], "constant", inputs, results)
        model = helper.make_model(graph, opset_imports=list(self.proto.opset_import))
        feeds = {name: self.values.array(name) for name in names}
        try:
            with numpy.errstate(all="ignore"):
                arrays = [numpy.asarray(result) for result in ReferenceEvaluator(model).run(None, feeds)]
        except Exception:  # operators of the reference raise whatever comes to hand
            return None  # what it lacks or refuses stays in the graph
        expected = [helper.tensor_dtype_to_np_dtype(self.values.element_type(name)) for name in outputs]
        return arrays if [array.dtype for array in arrays] == expected else None

    def _add_constants(self, node: NodeProto, arrays: list[Array]) -> None:
        from onnx import numpy_helper

        for name, array in zip(filter(None, node.output), arrays, strict=True):
            self._add_constant(numpy_helper.from_array(array, name))

    def _add_constant(self, tensor: TensorProto) -> None:
        self.graph.initializer.append(tensor)
        self.values.set_constant(tensor)

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
        for name, value in outputs.items():
            if self.values.types[name].WhichOneof("value"):
                value.type.CopyFrom(self.values.types[name])
        del self.graph.value_info[:]
        for node in self.graph.node:
            for name in filter(None, node.output):
                if name not in outputs and name not in inputs:
                    self.graph.value_info.append(helper.make_value_info(name, self.values.types[name]))
