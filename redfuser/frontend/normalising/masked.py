"""One value written wherever a mask holds (``x[mask] = value``), as a choice.

Exporters spell it as ScatterND at the places that NonZero lists, whose number depends on data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.frontend.normalising.names import FreshNames

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TypeProto

#: They move or repeat elements, and do nothing else to a single one.
_SPREADS = frozenset(["Expand", "Identity", "Reshape", "Squeeze", "Tile", "Unsqueeze"])


def choose_where_masked(graph: GraphProto) -> None:
    """Rewrite, in place, each ScatterND that does so as the Where that gives the same.

    Args:
        graph: ``value_info`` holds the types of all values.
    """
    from onnx import TensorProto, helper

    types = _types(graph)
    made_by = {name: node for node in graph.node for name in node.output}
    fresh = FreshNames(graph)
    nodes: list[NodeProto] = []
    for node in graph.node:
        mask = _mask(node, made_by, types)
        value = _one_value(node.input[2], made_by, types) if mask else ""
        if mask and value:
            missing = range(len(_shape(types[mask]) or ()), len(_shape(types[node.input[0]]) or ()))
            if missing:
                axes, tall = fresh.take(f"{node.name}/axes"), fresh.take(f"{node.name}/mask")
                graph.initializer.append(helper.make_tensor(axes, TensorProto.INT64, [len(missing)], list(missing)))
                nodes.append(helper.make_node("Unsqueeze", [mask, axes], [tall], name=tall))
                mask = tall
            node.CopyFrom(helper.make_node("Where", [mask, value, node.input[0]], list(node.output), name=node.name))
        nodes.append(node)
    del graph.node[:]
    graph.node.extend(nodes)


def _mask(node: NodeProto, made_by: dict[str, NodeProto], types: dict[str, TypeProto]) -> str:
    """The mask at whose places a node writes, of the first extents of its data; "" if it does something else."""
    from onnx import TensorProto

    if node.op_type != "ScatterND" or any(a.name == "reduction" and a.s != b"none" for a in node.attribute):
        return ""
    turned = made_by.get(node.input[1])
    listed = made_by.get(turned.input[0]) if turned is not None and turned.op_type == "Transpose" else None
    if listed is None or listed.op_type != "NonZero":
        return ""
    mask = listed.input[0]
    extents, whole = _shape(types[mask]), _shape(types[node.input[0]])
    fits = extents and whole and extents == whole[: len(extents)]
    return mask if fits and types[mask].tensor_type.elem_type == TensorProto.BOOL else ""


def _one_value(name: str, made_by: dict[str, NodeProto], types: dict[str, TypeProto]) -> str:
    """The single element that a tensor repeats; "" if it isn't known to be one."""
    while True:
        if _shape(types[name]) in ([], [1]):
            return name
        node = made_by.get(name)
        if node is None or node.op_type not in _SPREADS:
            return ""
        name = node.input[0]


def _shape(kind: TypeProto) -> list[int | str] | None:
    """Extents, by name where they are symbolic; None unless all are known."""
    dims = kind.tensor_type.shape.dim
    extents = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in dims]
    return extents if kind.tensor_type.HasField("shape") and "" not in extents else None


def _types(graph: GraphProto) -> dict[str, TypeProto]:
    from onnx import helper

    types = {tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims) for tensor in graph.initializer}
    return types | {value.name: value.type for value in [*graph.input, *graph.value_info, *graph.output]}
