"""ONNX -> Relax through TVM's importer, with our converters and provenance.

The only place that subclasses TVM's importer. Every binding carries the node it came from: output ``k`` of node
``i`` is bound to ``node<i>_output<k>``, and the temporaries before it belong to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import tvm
from onnx import GraphProto, ModelProto, NodeProto, TypeProto
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from redfuser.contents import held
from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend.converters import CONVERTERS, converter_of
from redfuser.frontend.converters.broadcasting import require_fit
from redfuser.frontend.converters.common import Attributes, Inputs
from redfuser.frontend.element_types import held_array, held_type
from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.own import APPEND
from redfuser.frontend.normalising.own import DOMAIN as OWN_DOMAIN
from redfuser.frontend.results import DATA_SHAPED, refusal, require_tensor
from redfuser.frontend.sizes import SHAPE_INPUTS, Array, as_relax, as_tensor, constant_sizes, evaluate, objects
from redfuser.frontend.symbols import OutOfRange, Symbols, Tied

_DEFAULT_DOMAINS = ("", "ai.onnx")

#: How to do without the operators of a domain.
_WAYS_OUT = {
    "com.microsoft.nchwc": "let ONNX Runtime optimise the model no further than ORT_ENABLE_EXTENDED: "
    "beyond that it writes the layouts of one machine"
}

#: TVM imports these with sizes that it finds out on the call, which no code can be generated for.
_AS_MANY_AS_FOUND = frozenset(["NonMaxSuppression"])

_MARK = re.compile(r"node(\d+)_output\d+$")


def import_graph(
    proto: ModelProto, symbols: Symbols | None = None, weights: Mapping[str, np.ndarray] | None = None
) -> tvm.IRModule:
    """Import a normalised model as a Relax module with one function ``main``; weights are constants.

    Args:
        symbols: the model's symbolic dimensions; None where it has none.
        weights: the bytes of initializers whose data ``proto`` lacks, by name. Constants share them.

    Raises:
        UnsupportedOperatorError: an operator has no converter, or its converter refuses this use of it.
        OutOfRange: a symbolic dimension has sizes that the model doesn't take.
        Tied: the model takes those alone at which one symbolic dimension is a sum of others.
    """
    importer = _Importer(symbols or Symbols({}), weights or {})
    try:
        return importer.from_onnx(proto.graph, opset_of(proto))
    except (UnsupportedOperatorError, OutOfRange, Tied):
        importer.bb._end_block()  # TVM prints a warning about a block left open
        raise


def marked_node(name: str) -> int | None:
    """The index of the node whose output a binding of this name holds."""
    match = _MARK.match(name)
    return int(match.group(1)) if match else None


class _Importer(onnx_frontend.ONNXGraphImporter):
    """TVM's importer with our converters, marked bindings and errors that name the node."""

    def __init__(self, symbols: Symbols, weights: Mapping[str, np.ndarray]) -> None:
        super().__init__(shape_dict=None, dtype_dict=None)
        self.symbols = symbols
        self.weights = weights
        self.sizes: dict[str, Array] = {}

    def _parse_graph_input(self, graph: GraphProto) -> None:
        """Parameters ``input_0``, … : names from the model never become identifiers."""
        extents = self.symbols.extents
        for place, value in enumerate(graph.input):
            tensor = value.type.tensor_type
            shape = [d.dim_value if d.HasField("dim_value") else extents[d.dim_param] for d in tensor.shape.dim]
            kind = held_type(tensor.elem_type, f"input '{value.name}'")
            variable = self._new_var(f"input_{place}", shape, kind)
            self._nodes[value.name] = self._inputs[value.name] = variable
        self._num_input = len(graph.input)

    def _parse_graph_initializers(self, graph: GraphProto) -> None:
        for tensor in graph.initializer:
            array = held_array(tensor, self.weights.get(tensor.name))
            self._nodes[tensor.name] = relax.Constant(held(array))

    def _check_for_unsupported_ops(self, graph: GraphProto) -> None:
        for node in graph.node:
            if not _is_supported(node):
                domain = "" if node.domain in _DEFAULT_DOMAINS else f" of domain '{node.domain}'"
                raise UnsupportedOperatorError(
                    f"operator {node.op_type}{domain} (node '{node.name}') is not supported",
                    (self._how_to_fix(node) if node.op_type == "If" else "")
                    or _WAYS_OUT.get(node.domain)
                    or "replace the operator in the model, or compile the part of the model without it",
                )

    def _construct_nodes(self, graph: GraphProto) -> None:
        declared = {value.name: value.type for value in [*graph.value_info, *graph.output]}
        outputs = {value.name for value in graph.output}
        for index, node in enumerate(graph.node):
            if outputs.isdisjoint(node.output) and self._keep_sizes(node, declared):
                continue
            if node.op_type in _AS_MANY_AS_FOUND:
                raise refusal(node, DATA_SHAPED, self.symbols)
            inputs = onnx_frontend.onnx_input(self._input(node, place) for place in range(len(node.input)))
            kinds = [declared[name].tensor_type.elem_type if name in declared else 0 for name in node.output]
            results = self._convert(node, inputs, kinds)
            for place, name in enumerate(node.output):
                if name:
                    value = self._bind(results[place], f"node{index}_output{place}") if place < len(results) else None
                    require_tensor(node, value, declared.get(name), self.symbols)
                    self._nodes[name] = value

    def _input(self, node: NodeProto, place: int) -> relax.Expr | None:
        name = node.input[place]
        if not name:
            return None
        value = self._nodes[name]
        keep = place in SHAPE_INPUTS.get(node.op_type, ())
        return value if keep or name not in self.sizes else as_tensor(self.bb, value)

    def _keep_sizes(self, node: NodeProto, declared: Mapping[str, TypeProto]) -> bool:
        """Whether the node computes sizes from sizes; its output is then known without any code."""
        if len(node.output) != 1 or node.domain not in _DEFAULT_DOMAINS or not self.symbols.variables:
            return False
        if node.op_type in ("Shape", "Size"):
            inputs = [self._known_extents(node.input[0])]
        else:
            inputs = [self._sizes(name) for name in node.input]
            if not any(name in self.sizes for name in node.input):
                return False
            if any(known is None for name, known in zip(node.input, inputs, strict=True) if name):
                return False
        found = evaluate(self.symbols, node.op_type, inputs, self._parse_attr(node.attribute))
        dtype = onnx_frontend.get_type(declared[node.output[0]].tensor_type.elem_type)
        if found is None or not dtype.startswith(("int", "bool")):
            return False
        self.sizes[node.output[0]] = found
        self._nodes[node.output[0]] = as_relax(found, dtype)
        return True

    def _sizes(self, name: str) -> Array | None:
        if not name:
            return None
        known = self.sizes.get(name)
        return constant_sizes(self._nodes[name]) if known is None else known

    def _known_extents(self, name: str) -> Array | None:
        if name in self.sizes:
            return objects(self.sizes[name].shape, (self.sizes[name].ndim,))
        shape = self._nodes[name].struct_info.shape
        extents = None if shape is None else [self.symbols.simplify(extent) for extent in shape]
        return None if extents is None else objects(extents, (len(extents),))

    def _convert(self, node: NodeProto, inputs: Inputs, kinds: Sequence[int]) -> Sequence[relax.Expr]:
        """One expression for each output of the node; ``kinds`` are the outputs' ONNX element types, 0 if unknown."""

        def stock(_: relax.BlockBuilder, values: Inputs, attributes: Attributes) -> relax.Expr:
            return self._convert_operator(node.op_type, onnx_frontend.onnx_input(values), attributes, self.opset)

        convert = converter_of(node.op_type, stock)
        try:
            attributes = self._parse_attr(node.attribute)
            attributes["tvm_custom"] = {
                "name": node.name,
                "num_outputs": len(node.output),
                "output_types": kinds,
                "symbols": self.symbols,
            }
            if self.symbols.variables:
                require_fit(node.op_type, inputs, self.symbols)
            result = convert(self.bb, inputs, attributes)
            return self._separate(self.bb.normalize(result) if isinstance(result, relax.Expr) else result)
        except (OutOfRange, Tied):
            raise
        except Exception as error:
            # Converters refuse with whatever exception comes to hand, assertions included.
            reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
            raise UnsupportedOperatorError(
                f"operator {node.op_type} (node '{node.name}') is not supported as used here: {reason}",
                self._how_to_fix(node, reason),
            ) from error

    def _how_to_fix(self, node: NodeProto, reason: str = "must be a constant") -> str:
        """What to say where a node needs a constant or a static shape: the user can give either."""
        dims = " ".join(f"--dim {name}=N" for name in self.symbols.ranges)
        fixed = f"fix the symbolic dimensions: {dims}" if dims else ""
        if "symbolic dimension" in reason:
            return fixed
        if not reason.endswith("must be a constant"):
            return ""
        parameters = node.input if node.op_type == "If" else node.input[1:]
        read = [name for name in parameters if name in self._inputs]
        names = read or [name for name, variable in self._inputs.items() if _is_switch(variable)]
        return f"make it a constant: {' '.join(f'--value {name}=N' for name in names)}" if names else fixed

    def _separate(self, result: relax.Expr | Sequence[relax.Expr]) -> Sequence[relax.Expr]:
        if not isinstance(result, relax.Expr):
            return result
        if isinstance(result, relax.Tuple):
            return list(result.fields)
        if isinstance(result.struct_info, relax.TupleStructInfo):
            whole = self.bb.emit(result)
            return [relax.TupleGetItem(whole, place) for place in range(len(whole.struct_info.fields))]
        return [result]

    def _bind(self, result: relax.Expr, name: str) -> relax.Expr:
        """Give what a node computes a variable; constants stay as they are."""
        if isinstance(result, relax.Constant | relax.PrimValue | relax.ShapeExpr):
            return result
        return self.bb.emit(result, name_hint=name)


def _is_switch(variable: relax.Var) -> bool:
    """Whether an input is a single integer or truth value: what a model's branches depend on."""
    info = variable.struct_info
    return info.dtype.startswith(("bool", "int", "uint")) and all(str(extent) == "1" for extent in info.shape)


def _is_supported(node: NodeProto) -> bool:
    stock = onnx_frontend._get_convert_map()
    if node.domain == OWN_DOMAIN:
        return node.op_type == APPEND
    known = node.op_type in stock or (node.op_type in CONVERTERS and node.op_type != APPEND)
    return node.domain in _DEFAULT_DOMAINS and known
