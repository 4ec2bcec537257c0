"""ONNX -> ONNX: one spelling for what follows. The meaning of the graph is not touched: nothing is fused."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from redfuser.errors import ModelError
from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.byte_convolutions import convolve_as_bytes
from redfuser.frontend.normalising.channels_last import sink_transpositions
from redfuser.frontend.normalising.contributed.table import adopt
from redfuser.frontend.normalising.data import put_back, set_aside
from redfuser.frontend.normalising.dequantised_products import multiply_as_bytes
from redfuser.frontend.normalising.flattening import FLATTENS, flatten
from redfuser.frontend.normalising.folding import fold_constants
from redfuser.frontend.normalising.integer_convolutions import INTEGER_CONVOLUTIONS
from redfuser.frontend.normalising.masked import choose_where_masked
from redfuser.frontend.normalising.names import FreshNames
from redfuser.frontend.reading.walk import names_read

if TYPE_CHECKING:
    import numpy
    from onnx import GraphProto, ModelProto, NodeProto

    Array = numpy.ndarray[Any, Any]

#: A tensor of more elements than this fits no machine.
MOST_ELEMENTS = 1 << 40

#: Operators whose second input points into their first.
_INDEXED = frozenset(["Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"])

#: Older models are converted to this operator set; newer ones are kept.
OPSET = 17


def normalise(proto: ModelProto, convolves_bytes: bool = False) -> ModelProto:
    """Bring a model to the form that the importer reads.

    Functions inlined, operator set at least :data:`OPSET`, nodes uniquely named (names that are unique
    already are kept), products of dequantised bytes made products of bytes, constants and shapes folded,
    copies and unused nodes removed, constant indices of gathers and scatters non-negative, writes where a
    mask holds choices.

    Args:
        proto: its inputs have shapes (:func:`redfuser.frontend.shapes.resolve_shapes`). It is used up: a copy
            would hold all weights once more.
        convolves_bytes: whether convolutions of bytes become products of bytes.

    Raises:
        ModelError: the graph contradicts itself, has sparse initializers, or cannot be converted to :data:`OPSET`.
    """
    if proto.graph.sparse_initializer:
        name = proto.graph.sparse_initializer[0].values.name
        raise ModelError(f"initializer '{name}' is sparse, which is not supported", "store it as a dense tensor")
    adopt(proto)
    result = upgrade(inline_functions(proto))
    _name_nodes(result.graph)
    multiply_as_bytes(result.graph)
    fold_constants(result, INTEGER_CONVOLUTIONS if convolves_bytes else ())
    if convolves_bytes:
        sink_transpositions(result.graph, convolve_as_bytes(result))
        fold_constants(result)
    _refuse_huge(result.graph)
    _name_nodes(result.graph)
    _make_indices_positive(result.graph)
    choose_where_masked(result.graph)
    _remove_unused(result.graph)
    return result


def inline_functions(proto: ModelProto) -> ModelProto:
    """The model with functions in place of their calls: itself if it has none, otherwise another, and itself used up.

    A function may rely on another operator set than the model. Both are brought to the newer of the two first.

    Raises:
        ModelError: they cannot be.
    """
    import onnx.inliner

    if not proto.functions:
        return proto
    flatten(proto, ["Hardmax"])
    newest = max(map(opset_of, proto.functions))
    raised = convert(proto, newest) if newest > opset_of(proto) else proto
    data = set_aside(raised)
    try:
        inlined = onnx.inliner.inline_local_functions(raised, convert_version=True)
        put_back(inlined, data)
        return inlined
    except _conversion_errors() as error:
        reason = str(error).strip().splitlines()[-1]
        raise ModelError(
            f"a function of the model can't be converted to the model's operator set {opset_of(raised)}: {reason}",
            "export the model and its functions with one opset",
        ) from error


def upgrade(proto: ModelProto) -> ModelProto:
    """The model in operator set :data:`OPSET` at least: itself if it is, otherwise another, and itself used up.

    Raises:
        ModelError: it cannot be converted.
    """
    return proto if opset_of(proto) >= OPSET else convert(proto, OPSET)


def convert(proto: ModelProto, opset: int) -> ModelProto:
    """The model in a later operator set; the one given is used up. Its functions are kept as they are.

    Raises:
        ModelError: it cannot be converted.
    """
    import onnx

    functions, converted = list(proto.functions), proto  # the converter drops functions
    data = set_aside(proto)
    try:
        for step in sorted({max(opset_of(proto), FLATTENS), opset}):
            flatten(converted, ["Hardmax"])
            converted = onnx.version_converter.convert_version(converted, step)
    except _conversion_errors() as error:
        reason = str(error).strip().splitlines()[-1]
        raise ModelError(
            f"the model's operator set {opset_of(proto)} can't be converted to {opset}: {reason}",
            f"export the model with opset {opset} or later",
        ) from error
    del converted.functions[:]
    converted.functions.extend(functions)
    put_back(converted, data)
    return converted


def _conversion_errors() -> tuple[type[Exception], ...]:
    """What ONNX's converter raises: its own error, and those that C++ has."""
    import onnx

    return (RuntimeError, ValueError, IndexError, onnx.version_converter.ConvertError)


def _refuse_huge(graph: GraphProto) -> None:
    for name, shape in _shapes(graph).items():
        if math.prod(shape) > MOST_ELEMENTS:
            raise ModelError(
                f"value '{name}' has the shape {list(shape)}; at most {MOST_ELEMENTS} elements are accepted"
            )


def _name_nodes(graph: GraphProto) -> None:
    """Unique, non-empty names; the first bearer of a name keeps it."""
    taken = {node.name for node in graph.node}
    seen: set[str] = set()
    for place, node in enumerate(graph.node):
        if not node.name or node.name in seen:
            base = node.name or f"{node.op_type}_{place}"
            candidates = (f"{base}_{suffix}" for suffix in itertools.count(1))
            node.name = next(name for name in itertools.chain([base], candidates) if name not in taken)
            taken.add(node.name)
        seen.add(node.name)


def _make_indices_positive(graph: GraphProto) -> None:
    """Rewrite negative constant indices: neither TVM's gathers nor its scatters know them."""
    import numpy
    from onnx import numpy_helper

    constants = {tensor.name: tensor for tensor in graph.initializer}
    shapes, fresh = _shapes(graph), FreshNames(graph)
    for node in graph.node:
        if node.op_type not in _INDEXED:
            continue
        tensor, shape = constants.get(node.input[1]), shapes.get(node.input[0])
        if tensor is None or shape is None:
            continue
        indices = numpy_helper.to_array(tensor)
        extent = _extents(node, indices, shape)
        if ((indices < -extent) | (indices >= extent)).any():
            raise ModelError(f"node '{node.name}' ({node.op_type}) has an index outside its data's shape {list(shape)}")
        if (indices < 0).any():
            positive = numpy.where(indices < 0, indices + extent, indices).astype(indices.dtype)
            name = fresh.take(f"{node.name}/indices")
            graph.initializer.append(numpy_helper.from_array(positive, name))
            node.input[1] = name


def _extents(node: NodeProto, indices: Array, shape: tuple[int, ...]) -> Array:
    """What each index is counted against, broadcastable to the indices."""
    import numpy

    attributes = {a.name: a.i for a in node.attribute}
    if node.op_type not in ("GatherND", "ScatterND"):
        return numpy.array(shape[attributes.get("axis", 0)], numpy.int64)
    first = attributes.get("batch_dims", 0)
    width = indices.shape[-1]
    return numpy.array(shape[first : first + width], numpy.int64)


def _shapes(graph: GraphProto) -> dict[str, tuple[int, ...]]:
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        dims = value.type.tensor_type.shape.dim
        if all(d.HasField("dim_value") for d in dims):
            shapes.setdefault(value.name, tuple(d.dim_value for d in dims))
    return shapes


def _remove_unused(graph: GraphProto) -> None:
    """Drop nodes, initializers and types nothing reads. Every graph input is kept."""
    needed = {output.name for output in graph.output}
    kept: list[NodeProto] = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(names_read(node))
    del graph.node[:]
    graph.node.extend(reversed(kept))
    # One by one: protobuf frees nothing that was taken out and put back.
    for place, tensor in reversed(list(enumerate(graph.initializer))):
        if tensor.name not in needed:
            del graph.initializer[place]
    used = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in used]
    del graph.input[:]
    graph.input.extend(inputs)
    values = [value for value in graph.value_info if value.name in needed]
    del graph.value_info[:]
    graph.value_info.extend(values)
