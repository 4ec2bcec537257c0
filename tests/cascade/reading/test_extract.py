"""Reading TIR blocks as pure definitions: what is read, and what makes a binding opaque."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redfuser.cascade.reading.extract import extract_graph
from redfuser.cascade.reading.tir import NotExtractable, extract_primfunc
from redfuser.extents import Dim, size_of

tvm = pytest.importorskip("tvm")


def lowered(build: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    """A legalised module whose ``main`` applies ``build`` to parameters ``x0, x1, …`` of the given shapes."""
    from tvm import relax

    builder = relax.BlockBuilder()
    parameters = [relax.Var(f"x{k}", relax.TensorStructInfo(shape, "float32")) for k, shape in enumerate(shapes)]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(build(builder, *parameters)))
        builder.emit_func_output(result)
    return relax.transform.LegalizeOps()(builder.get())


def test_softmax_is_read_as_its_four_blocks() -> None:
    from tvm import relax

    graph, values = extract_graph(lowered(lambda b, x: relax.op.nn.softmax(x, -1), (3, 8)), {})
    graph.verify()
    assert [d.combiner for d in graph.definitions.values()] == ["max", "", "sum", ""]
    assert set(values) == {"x0", "gv"} and graph.outputs == {"gv"}
    assert len(graph.stored & set(graph.definitions)) == 1, "only the binding itself is stored"


def test_transpose_and_reshape_read_as_affine_indices() -> None:
    from tvm import relax

    def build(b: Any, x: Any) -> Any:
        split = b.emit(relax.op.reshape(x, (2, 5, 3, 4)))
        return relax.op.permute_dims(split, [0, 2, 1, 3])

    graph, _ = extract_graph(lowered(build, (2, 5, 12)), {})
    texts = [str(d.body) for d in graph.definitions.values()]
    assert "* 4) +" in texts[0] and "//" not in texts[0] and "%" not in texts[0]


def test_matrix_product_has_a_sum_and_two_operands() -> None:
    from tvm import relax

    graph, _ = extract_graph(lowered(lambda b, x, y: relax.op.matmul(x, y), (3, 8), (8, 5)), {})
    (product,) = graph.definitions.values()
    assert product.combiner == "sum" and [a.extent for a in product.reduced] == [8]
    assert graph.inputs_of["gv"] == ("x0", "x1")


def test_scalar_constant_is_inlined_and_a_tensor_constant_is_stored() -> None:
    import numpy as np
    from tvm import relax

    def build(b: Any, x: Any) -> Any:
        scaled = b.emit(relax.op.multiply(x, relax.const(0.5, "float32")))
        return relax.op.add(scaled, relax.const(np.arange(8, dtype="float32")))

    graph, _ = extract_graph(lowered(build, (3, 8)), {})
    assert "0.5" in str(next(iter(graph.definitions.values())).body)
    assert len(graph.constants) == 1


def test_sort_is_opaque_and_its_input_must_exist() -> None:
    from tvm import relax

    def build(b: Any, x: Any) -> Any:
        doubled = b.emit(relax.op.add(x, x))
        return b.emit(relax.op.sort(doubled))

    builder_module = lowered(build, (3, 8))
    graph, _ = extract_graph(builder_module, {})
    opaque = [name for name in graph.inputs_of if name not in graph.definitions]
    assert opaque == ["gv"] or len(opaque) == 1
    assert graph.inputs_of[opaque[0]][0] in graph.outputs


def test_tuple_reduction_is_not_a_definition() -> None:
    from tvm import relax

    module = lowered(lambda b, x: relax.op.argmax(x, -1), (3, 8))
    (function,) = (f for _, f in module.functions_items() if isinstance(f, tvm.tirx.PrimFunc))
    with pytest.raises(NotExtractable):
        extract_primfunc(function)


def test_symbolic_extents_must_be_known() -> None:
    from tvm import relax

    n = tvm.tirx.Var("n", "int64")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((n,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.add(x, x))
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps()(builder.get())
    (function,) = (f for _, f in module.functions_items() if isinstance(f, tvm.tirx.PrimFunc))
    with pytest.raises(NotExtractable, match="the size n"):
        extract_primfunc(function)
    (own,) = function.buffer_map[function.params[0]].shape
    size = size_of(Dim("length", 1, 9))
    assert extract_primfunc(function, {own: 2 * size}).parameters[0].shape == (2 * size,)


def test_axis_of_extent_one_leaves_the_body() -> None:
    """Average pooling counts the elements of its window with every axis, those of extent 1 too."""
    from tvm import relax

    module = lowered(lambda b, x: relax.op.nn.avg_pool2d(x, (3, 2), (3, 2)), (1, 4, 3, 8))
    graph, _ = extract_graph(module, {})
    graph.verify()
