"""What a model's outputs should be: the graph in float64, and ONNX Runtime's results."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redfuser.errors import MissingToolError, VerificationError
from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.branches import branch_of
from redfuser.frontend.normalising.contributed.table import adopt, define
from redfuser.frontend.normalising.data import is_large, without_data
from redfuser.frontend.normalising.flattening import FLATTENS, flatten
from redfuser.frontend.normalising.normalise import OPSET, convert, inline_functions, upgrade
from redfuser.frontend.normalising.own import DOMAIN as OWN_DOMAIN
from redfuser.frontend.reading.walk import names_read
from redfuser.oracle.operators import double_operators
from redfuser.oracle.runtime_reading import as_runtime_reads, sort
from redfuser.oracle.survival import death_at_loading
from redfuser.oracle.widening import Arrays, widen_graph, widened

if TYPE_CHECKING:
    import numpy as np
    from onnx import ModelProto, NodeProto, OperatorSetIdProto

    Array = np.ndarray[Any, Any]
    Values = dict[str, Array]

#: ONNX Runtime has no float64 kernel of these and computes their definition, which has constants or steps in float32;
#: or the kernel makes -inf of NaN, as that of LogSoftmax.
_REFERENCE_FIRST = frozenset(
    ["Attention", "Gelu", "GroupNormalization", "HardSwish", "LayerNormalization", "LogSoftmax"]
)

#: Operators that grew: the reference implementation, or ONNX Runtime in float64, knows no version before this one.
_GREW_IN = {"DequantizeLinear": 19, "GridSample": 20, "QuantizeLinear": 19}


def require_loadable(proto: ModelProto) -> None:
    """Check that ONNX Runtime survives loading the model, before :func:`run_onnxruntime`.

    Raises:
        VerificationError: it doesn't.
    """
    try:
        content = as_runtime_reads(proto).SerializeToString()
    except ValueError:  # beyond 2 GiB, which running it refuses
        return
    if died := death_at_loading(content):
        raise VerificationError(f"ONNX Runtime cannot load this model: it dies of {died}")


def run_onnxruntime(proto: ModelProto, feeds: Mapping[str, Array], threads: int | None) -> Values:
    """All outputs by ONNX Runtime on the CPU, in the model's own precision.

    Raises:
        MissingToolError: onnxruntime isn't installed.
        VerificationError: it cannot run this model.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingToolError("onnxruntime is not installed", "pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.log_severity_level = 4
    names = [output.name for output in proto.graph.output]
    try:
        content = as_runtime_reads(proto).SerializeToString()
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        results = _typed(session.run(names, dict(feeds)), [output.type for output in session.get_outputs()])
        return dict(zip(names, results, strict=True))
    except Exception as error:  # its exceptions share no base class
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise VerificationError(f"ONNX Runtime cannot run this model: {reason}") from error


def run_float64(proto: ModelProto, feeds: Mapping[str, Array]) -> Values:
    """All outputs of the graph as written, every floating-point value of 16 bits and more in float64.

    Node by node: ONNX Runtime where it has a kernel for float64, else ONNX's reference implementation.

    Raises:
        ModelError: a function of the model relies on an operator set that can't be converted to the model's.
        VerificationError: neither can run some node; it is named.
    """
    return _run(proto, feeds, wide=True)


def run_rounded(proto: ModelProto, feeds: Mapping[str, Array]) -> Values:
    """All outputs of the graph as written, what each node computes rounded to the type that it has.

    ONNX Runtime, given the whole graph, leaves out a rounding to half precision where the next node computes in
    float32. Raises as :func:`run_float64` does.
    """
    return _run(proto, feeds, wide=False)


def _run(proto: ModelProto, feeds: Mapping[str, Array], wide: bool) -> Values:
    """Node by node, in double precision or in the model's own."""
    import onnx

    large = {tensor.name: tensor for tensor in proto.graph.initializer if is_large(tensor)}
    copy = without_data(proto)
    adopt(copy)
    model = inline_functions(copy)
    model = convert(model, FLATTENS) if opset_of(model) < FLATTENS else model
    flatten(model, ["Hardmax", "LogSoftmax", "Softmax"])
    if importlib.util.find_spec("onnxruntime") is None:
        model = upgrade(model)  # the reference implementation knows only the later meaning of some operators
    sort(model)
    small = [tensor for tensor in model.graph.initializer if tensor.name not in large]
    if wide:
        widen_graph(model.graph, small)
    values = Arrays(wide, {name: widened(array) if wide else array for name, array in feeds.items()})
    values |= {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in small}
    values |= large
    results = _run_nodes(model, model.graph.node, values)
    return {output.name: results[output.name] for output in model.graph.output}


def _run_nodes(model: ModelProto, nodes: Sequence[NodeProto], outside: Arrays) -> Arrays:
    """What is known outside of the nodes, and what they compute."""
    values = outside.with_more({})
    for node in nodes:
        if node.op_type == "If" and node.domain in ("", "ai.onnx"):
            values |= _run_branch(model, node, values)
        elif definition := _definition(model, node, values):
            results = _run_nodes(_with_definitions(model), definition, values)
            values |= {name: results[name] for name in node.output if name}
        else:
            values |= _run_node(model, node, values)
    return values


def _run_branch(model: ModelProto, node: NodeProto, values: Arrays) -> Values:
    """The outputs of an If."""
    from onnx import numpy_helper

    branch = branch_of(node, bool(values[node.input[0]].all()))
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in branch.initializer}
    results = _run_nodes(model, branch.node, values.with_more(constants))
    return {name: results[output.name] for name, output in zip(node.output, branch.output, strict=True) if name}


def _definition(model: ModelProto, node: NodeProto, values: Arrays) -> Sequence[NodeProto] | None:
    """What defines a node: a contributed operator has float32 kernels only, if any."""
    from onnx import TypeProto, helper

    def type_of(name: str) -> TypeProto:
        array = values[name]
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)

    return define(node, type_of, opset_of(_with_definitions(model)), values.get)


def _with_definitions(model: ModelProto) -> ModelProto:
    """A model without nodes in the operator set that definitions are written in, :data:`OPSET` at least."""
    from onnx import helper

    others = [opset for opset in model.opset_import if opset.domain not in ("", "ai.onnx", OWN_DOMAIN)]
    opsets = [helper.make_opsetid("", max(opset_of(model), OPSET)), helper.make_opsetid(OWN_DOMAIN, 1), *others]
    return helper.make_model(helper.make_graph([], "", [], []), opset_imports=opsets, ir_version=model.ir_version)


def _run_node(model: ModelProto, node: NodeProto, values: Arrays) -> Values:
    import numpy as np
    from onnx import helper

    reads = [name for name in dict.fromkeys(names_read(node)) if name in values]
    feeds = {name: values[name] for name in reads}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    names = [name for name in node.output if name]
    outputs = [helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph([_renamed(node)], "node", inputs, outputs)
    opsets = [_with_implementation(opset, node) for opset in model.opset_import]
    single = helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)
    with np.errstate(all="ignore"):
        fast = None if values.wide and _is_for_the_reference(node, feeds) else _by_onnxruntime(single, feeds)
        results = fast or _by_reference(single, feeds)
    arrays = [np.asarray(result) for result in results]
    if values.wide:
        return dict(zip(names, map(widened, arrays), strict=True))
    return dict(zip(names, _rounded(single, arrays), strict=True))


def _rounded(single: ModelProto, arrays: Sequence[Array]) -> list[Array]:
    """Results of one node in the types that ONNX gives them: its reference leaves some of bfloat16 in float32."""
    import onnx
    from onnx import helper

    outputs = onnx.shape_inference.infer_shapes(single).graph.output
    types = [output.type.tensor_type.elem_type for output in outputs]
    return [
        array.astype(helper.tensor_dtype_to_np_dtype(kind), copy=False) if kind else array
        for array, kind in zip(arrays, types, strict=True)
    ]


def _renamed(node: NodeProto) -> NodeProto:
    """The node with the names that the versions of :data:`_GREW_IN` have for what it does."""
    import onnx

    if node.op_type != "GridSample":
        return node
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    for attribute in copy.attribute:
        if attribute.name == "mode":
            attribute.s = attribute.s.removeprefix(b"bi")
    return copy


def _is_for_the_reference(node: NodeProto, feeds: Values) -> bool:
    """Whether ONNX Runtime isn't asked.

    Nor is it of the mean of nothing, 0/0, of which it makes 0; and of a Clip without a bound, for which it takes the
    largest number, while the operator's definition lets an infinity pass.
    """
    if node.op_type == "Clip":
        return sum(map(bool, node.input)) < len(("data", "min", "max"))
    return node.op_type in _REFERENCE_FIRST or (node.op_type == "ReduceMean" and not feeds[node.input[0]].size)


def _with_implementation(opset: OperatorSetIdProto, node: NodeProto) -> OperatorSetIdProto:
    """The operator set, or the next one in which the reference implementation knows the node; what it means is kept."""
    from onnx import helper

    least = _GREW_IN.get(node.op_type, 0) if not opset.domain else 0
    return helper.make_opsetid(opset.domain, max(opset.version, least))


def _by_onnxruntime(single: ModelProto, feeds: Mapping[str, Array]) -> Sequence[Array] | None:
    """None where ONNX Runtime is missing, or has no kernel for these types."""
    try:
        import onnxruntime
    except ImportError:
        return None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        content = single.SerializeToString()
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        return _typed(session.run(None, feeds), [output.type for output in session.get_outputs()])
    except Exception:  # its exceptions share no base class; the reference implementation is next
        return None


def _typed(results: Sequence[Array], types: Sequence[str]) -> list[Array]:
    """ONNX Runtime's results; floats of 8 bits, which it hands out as bytes, get their type back."""
    from redfuser.expr.evaluate import numpy_dtype

    names = [kind.removeprefix("tensor(").removesuffix(")").replace("float8", "float8_") for kind in types]
    return [
        array.view(numpy_dtype(name)) if name.startswith("float8") else array
        for array, name in zip(results, names, strict=True)
    ]


def _by_reference(single: ModelProto, feeds: Mapping[str, Array]) -> Sequence[Array]:
    from onnx.reference import ReferenceEvaluator

    node = single.graph.node[0]
    try:
        return ReferenceEvaluator(single, new_ops=double_operators()).run(None, dict(feeds))
    except Exception as error:  # operators raise whatever comes to hand
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise VerificationError(
            f"node '{node.name}' ({node.op_type}) cannot be computed in float64: {reason}",
            "where inputs were drawn at random, give some that the model takes: --inputs FILE.npz",
        ) from error
