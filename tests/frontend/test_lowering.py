"""The lowered model: what it promises, how it reads, and where each binding comes from."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from tvm import IRModule
from tvm.runtime import Tensor

from models.attention import attention
from models.tiny_bert import tiny_bert
from redfuser.frontend import LoweredModel, lower, prepare
from redfuser.frontend.importer import import_graph
from redfuser.signature import DimRange, TensorSpec
from tests.frontend.running import graph_of, loaded, run, single
from tests.golden import Golden

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def bert() -> LoweredModel:
    return lower(loaded(tiny_bert()))


def test_importing_the_frontend_imports_neither_tvm_nor_onnx() -> None:
    program = "import sys, redfuser.frontend; sys.exit(any(name in sys.modules for name in ('tvm', 'onnx')))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_signature(bert: LoweredModel) -> None:
    assert bert.inputs == (TensorSpec("input_ids", (1, 32), "int64"), TensorSpec("attention_mask", (1, 32), "int64"))
    assert bert.outputs == (TensorSpec("last_hidden_state", (1, 32, 64), "float32"),)


def test_every_binding_comes_from_a_node_and_every_computation_from_its_own(bert: LoweredModel) -> None:
    bert.verify()
    kinds = {"softmax": "Softmax", "layernormalization": "LayerNormalization", "matmul": "MatMul", "erf": "Erf"}
    for variable, nodes in bert.provenance.items():
        (node,) = nodes
        operator = kinds.get(variable.split("_")[0])
        assert operator is None or bert.operators[node] == operator
    reached = {node for nodes in bert.provenance.values() for node in nodes}
    identities = {node for node, operator in bert.operators.items() if operator == "Identity"}
    assert reached == set(bert.operators) - identities
    assert "layer.1.attention.softmax" in reached


def test_temporaries_belong_to_the_node_that_needs_them() -> None:
    lowered = lower(loaded(attention("operator", mask="boolean", softcap=3.0)))
    (node,) = {nodes[0] for nodes in lowered.provenance.values()}
    assert lowered.operators[node] == "Attention" and len(lowered.provenance) > 8


def test_the_lowering_of_a_binding_is_what_its_node_says(bert: LoweredModel) -> None:
    called = {
        binding.var.name_hint: binding.value.args[0].name_hint
        for block in bert.module["main"].body.blocks
        for binding in block.bindings
    }
    for variable, function in called.items():
        if function.startswith("softmax"):
            assert bert.operators[bert.provenance[variable][0]] == "Softmax"
        if function.startswith("layer_norm"):
            assert bert.operators[bert.provenance[variable][0]] == "LayerNormalization"


def test_names_of_the_model_are_never_identifiers() -> None:
    node = helper.make_node("Relu", ["x; rm -rf"], ["\x1b[2J"], name="../../evil")
    lowered = lower(loaded(graph_of([node], {"x; rm -rf": X}, ["\x1b[2J"])))
    assert "evil" not in lowered.module.script() and "rm" not in lowered.module.script()
    assert lowered.inputs[0].name == "x; rm -rf" and lowered.provenance == {"relu_0": ("../../evil",)}


def test_text_form(bert: LoweredModel) -> None:
    text = str(bert)
    assert "input_ids: int64[1, 32]" in text and "Softmax 'layer.0.attention.softmax'" in text and "R.call_tir" in text


def test_golden(golden: Golden) -> None:
    lowered = lower(loaded(attention("sdpa", mask="boolean", heads=4, kv_heads=2, q_len=4, kv_len=6, head_dim=8)))
    golden.check("lowered_attention.txt", str(lowered))


def test_symbolic_dimensions_stay_so_unless_fixed() -> None:
    proto = single("Relu", {"x": X})
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    result = lower(loaded(proto), {"rows": DimRange(1, 9)})
    result.verify()
    assert result.outputs[0].shape == ("rows", 3) and result.dims == {"rows": DimRange(1, 9)}
    assert lower(loaded(proto), {"rows": 5}).outputs[0].shape == (5, 3)
    assert lower(loaded(proto), shapes={"x": (7, 3)}).outputs[0].shape == (7, 3)


def test_outputs_that_are_inputs_constants_or_the_same_value() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Relu", ["x"], ["first"]),
        helper.make_node("Identity", ["first"], ["second"]),
    ]
    lowered = lower(loaded(graph_of(nodes, {"x": X}, ["same", "shape", "first", "second"])))
    same, shape, first, second = run(lowered, {"x": X})
    assert np.array_equal(same, X) and shape.tolist() == [2, 3]
    assert np.array_equal(first, X) and np.array_equal(second, X)


def test_one_output_among_several_uses() -> None:
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    a, b = run(lower(loaded(graph_of(nodes, {"x": X}, ["a", "b"]))), {"x": X})
    assert np.allclose(a, np.exp(X)) and np.array_equal(b, -a)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"provenance": {}}, "comes from no node"),
        ({"operators": {}}, "unknown nodes"),
        ({"inputs": ()}, "inputs and parameters differ"),
        ({"inputs": (TensorSpec("x", (2, 2), "float32"),)}, "is not"),
    ],
)
def test_the_verifier_rejects(change: dict[str, object], message: str) -> None:
    lowered = lower(loaded(single("Softmax", {"x": X})))
    lowered.verify()
    with pytest.raises(AssertionError, match=message):
        dataclasses.replace(lowered, **change).verify()  # type: ignore[arg-type]


def test_the_verifier_rejects_what_is_not_lowered() -> None:
    import tvm
    from tvm import relax

    lowered = lower(loaded(single("Softmax", {"x": X})))
    builder = relax.BlockBuilder()
    parameter = relax.Var("input_0", relax.TensorStructInfo((2, 3), "float32"))
    with builder.function("main", [parameter]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.exp(parameter))
        builder.emit_func_output(result)
    module = tvm.IRModule(dict(builder.get().functions_items()))
    with pytest.raises(AssertionError, match="not lowered"):
        dataclasses.replace(lowered, module=module).verify()


@pytest.mark.parametrize("kind", [1, 3, 6, 7, 9, 10, 11, 16, 17, 22])
def test_weights_beside_the_graph_give_the_same_constants(kind: int) -> None:
    """One of each width and family: float32, int8, int32, int64, bool, float16, float64, bfloat16, float8, int4."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    values = (np.arange(128) % 2 if kind == 9 else np.arange(128) % 15 - 7).astype(dtype)
    tensor = numpy_helper.from_array(values.reshape(64, 2), "w")
    data = aligned(tensor.raw_data)
    bare = TensorProto(name="w", data_type=kind, dims=[64, 2])
    nodes = [helper.make_node("Identity", ["w"], ["y"])]
    results = [helper.make_tensor_value_info("y", kind, [64, 2])]
    graphs = [helper.make_graph(nodes, "test", [], results, [each]) for each in (tensor, bare)]
    whole, apart = (helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)]) for graph in graphs)
    expected, got = (constant(import_graph(m, None, w)) for m, w in ((whole, {}), (apart, {"w": data})))
    assert got.dtype == expected.dtype and got.numpy().tobytes() == expected.numpy().tobytes()
    shares = dtype.isbuiltin == 1 and np.shares_memory(np.from_dlpack(got), data)
    assert shares == (dtype.isbuiltin == 1)


def aligned(content: bytes) -> np.ndarray:
    """Bytes at an address that TVM takes."""
    room = np.zeros(len(content) + 64, np.uint8)
    start = -room.ctypes.data % 64
    room[start : start + len(content)] = np.frombuffer(content, np.uint8)
    return room[start : start + len(content)]


def constant(module: IRModule) -> Tensor:
    """The constant that ``main`` returns."""
    (binding,) = (binding for block in module["main"].body.blocks for binding in block.bindings)
    return binding.value.data


def test_preparing_leaves_the_loaded_model_alone() -> None:
    model = loaded(single("Gather", {"x": X}, {"indices": np.array([-1])}, opset=11, axis=1))
    before = model.proto.SerializeToString()
    assert prepare(model).proto.SerializeToString() != before
    assert model.proto.SerializeToString() == before
