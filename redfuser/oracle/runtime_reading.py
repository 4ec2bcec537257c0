"""Models in spellings that ONNX Runtime reads as ONNX means them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.frontend.model import opset_of
from redfuser.frontend.normalising.mixed_norms import is_mixed
from redfuser.frontend.normalising.normalise import inline_functions
from redfuser.frontend.reading.walk import graphs_of, nodes_of

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto


def as_runtime_reads(proto: ModelProto) -> ModelProto:
    """What ONNX Runtime gets wrong, spelled in a way that it gets right; the model itself if there is nothing.

    It ignores which operator set a function relies on; of an output that a branch gives twice it writes one only, and
    refuses one that lies outside of the branch. It takes no RMSNormalization whose data and scale
    have different types.
    """
    import onnx

    foreign = any(opset_of(function) != opset_of(proto) for function in proto.functions)
    branches = any(graph is not proto.graph for graph in graphs_of(proto))
    mixed = _mixed_norms(proto)
    if not foreign and not branches and not mixed and not any(map(_is_unsorted, nodes_of(proto))):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    model = inline_functions(copy) if foreign else copy
    sort(model)
    _write_out(model, mixed)
    for branch in [graph for graph in graphs_of(model) if graph is not model.graph]:
        for place, output in enumerate(branch.output):
            name = f"{output.name}/output_{place}"
            branch.node.append(onnx.helper.make_node("Identity", [output.name], [name]))
            output.name = name
    return model


def _mixed_norms(proto: ModelProto) -> frozenset[str]:
    """What the RMSNormalizations of the graph compute whose data and scale have different types, as far as known."""
    import onnx

    norms = [node for node in proto.graph.node if node.op_type == "RMSNormalization"]
    if not norms:
        return frozenset()
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    values = [*inferred.input, *inferred.value_info, *inferred.output]
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    types |= {tensor.name: tensor.data_type for tensor in inferred.initializer}
    return frozenset(node.output[0] for node in norms if is_mixed(node, lambda name: types.get(name, 0)))


def _write_out(model: ModelProto, norms: frozenset[str]) -> None:
    """RMSNormalizations by their definition: of a scale of 1, in the data's type, then times the scale in its own."""
    from onnx import TensorProto, helper

    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        if node.output[0] in norms:
            (data, scale), result = node.input, node.output[0]
            one = helper.make_tensor(f"{result}/one", TensorProto.FLOAT, [1], [1.0])
            node.input[1], node.output[0] = f"{result}/own", f"{result}/normal"
            model.graph.initializer.append(one)
            steps = [
                helper.make_node("CastLike", [one.name, data], [node.input[1]]),
                node,
                helper.make_node("CastLike", [node.output[0], scale], [f"{result}/cast"]),
                helper.make_node("Mul", [f"{result}/cast", scale], [result]),
            ]
            model.graph.node.extend(steps)
        else:
            model.graph.node.append(node)


def _is_unsorted(node: NodeProto) -> bool:
    return node.op_type == "TopK" and any(a.name == "sorted" and not a.i for a in node.attribute)


def sort(model: ModelProto) -> None:
    """The best in order where the model leaves the order open: ours are, and ONNX Runtime's only if asked for."""
    for node in filter(_is_unsorted, nodes_of(model)):
        next(a for a in node.attribute if a.name == "sorted").i = 1
