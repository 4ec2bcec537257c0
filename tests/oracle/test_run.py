"""The float64 oracle, ONNX Runtime, and inputs to try."""

from __future__ import annotations

import math
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper

from redfuser.accuracy import compare
from redfuser.errors import VerificationError
from redfuser.oracle import run as oracle
from redfuser.oracle.run import run_float64, run_onnxruntime, run_rounded
from tests.frontend.running import graph_of, lower_and_run, single

X = np.linspace(-3, 3, 7).astype(np.float32)


def test_everything_is_computed_in_double() -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["half"], to=TensorProto.FLOAT16),
        helper.make_node("Add", ["half", "tiny"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=TensorProto.FLOAT),
    ]
    tiny = np.array(1e-7, np.float16)
    result = run_float64(graph_of(nodes, {"x": X}, ["y"], {"tiny": tiny}), {"x": X})["y"]
    assert result.dtype == np.float64
    assert np.array_equal(result, X.astype(np.float64) + np.float64(tiny))


def test_constants_of_every_spelling_are_double() -> None:
    nodes = [
        helper.make_node("Constant", [], ["a"], value_float=0.5),
        helper.make_node("Constant", [], ["b"], value=helper.make_tensor("b", TensorProto.FLOAT, [], [0.25])),
        helper.make_node("ConstantOfShape", ["shape"], ["c"]),
        helper.make_node("Sum", ["x", "a", "b", "c"], ["y"]),
    ]
    result = run_float64(graph_of(nodes, {"x": X}, ["y"], {"shape": np.array([7])}), {"x": X})["y"]
    assert np.array_equal(result, X.astype(np.float64) + 0.75)


@pytest.mark.parametrize("with_runtime", [True, False])
def test_the_error_function_in_double(monkeypatch: pytest.MonkeyPatch, with_runtime: bool) -> None:
    if not with_runtime:
        monkeypatch.setattr(oracle, "_by_onnxruntime", lambda *_: None)
    result = run_float64(single("Erf", {"x": X}), {"x": X})["y0"]
    assert np.allclose(result, [math.erf(value) for value in X.astype(np.float64)], rtol=1e-14)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_definitions_with_constants_in_double(approximate: str) -> None:
    x = X.astype(np.float64)
    result = run_float64(single("Gelu", {"x": X}, opset=20, approximate=approximate), {"x": X})["y0"]
    if approximate == "none":
        inner = np.array([math.erf(value / math.sqrt(2)) for value in x])
    else:
        inner = np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    assert np.allclose(result, x / 2 * (1 + inner), rtol=1e-14)
    assert np.allclose(
        run_float64(single("HardSwish", {"x": X}), {"x": X})["y0"], x * np.clip(x / 6 + 0.5, 0, 1), 1e-14
    )


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "LayerNormalization"])
def test_the_reference_agrees_with_the_runtime(monkeypatch: pytest.MonkeyPatch, operator: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)
    scale = {"s": np.ones(5, np.float32)} if operator == "LayerNormalization" else None
    proto = single(operator, {"x": x}, scale)
    first = run_float64(proto, {"x": x})["y0"]
    monkeypatch.setattr(oracle, "_by_onnxruntime", lambda *_: None)
    assert np.allclose(first, run_float64(proto, {"x": x})["y0"], rtol=1e-12)


@pytest.mark.parametrize("operator", ["MeanVarianceNormalization", "GroupNormalization"])
def test_norms_whose_definition_rounds_to_single_precision(operator: str) -> None:
    x = (np.random.default_rng(0).standard_normal((2, 3, 4, 5)) * 0.1 + 1000).astype(np.float32)
    grouped = operator == "GroupNormalization"
    constants = {"s": np.ones(3, np.float32), "b": np.zeros(3, np.float32)} if grouped else None
    proto = single(operator, {"x": x}, constants, opset=21, **({"num_groups": 3} if grouped else {}))
    axes, wide = (2, 3) if grouped else (0, 2, 3), x.astype(np.float64)
    centred = wide - wide.mean(axes, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + (1e-5 if grouped else 0))
    assert np.allclose(run_float64(proto, {"x": x})["y0"], expected, rtol=1e-6)


def test_quantisation_rounds_as_written() -> None:
    scale = run_float64(single("DynamicQuantizeLinear", {"x": X}, outputs=3), {"x": X})
    assert scale["y0"].dtype == np.uint8 and scale["y1"] == 6 / 255 and scale["y2"] == 128


def test_branches_see_what_lies_outside() -> None:
    branches = [
        helper.make_graph(
            [helper.make_node(operator, ["x"], ["r"])], "b", [], [helper.make_tensor_value_info("r", 1, [7])]
        )
        for operator in ("Neg", "Abs")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    feeds = {"x": X, "c": np.array(False)}
    assert np.array_equal(run_float64(graph_of([node], feeds, ["y"]), feeds)["y"], np.abs(X.astype(np.float64)))


def test_a_node_that_nothing_can_run_is_named() -> None:
    node = helper.make_node("Nonsense", ["x"], ["y"], name="the node", domain="own")
    with pytest.raises(VerificationError, match=r"'the node' \(Nonsense\)"):
        run_float64(graph_of([node], {"x": X}, ["y"], domains={"own": 1}), {"x": X})


def test_onnx_runtime() -> None:
    results = run_onnxruntime(single("Abs", {"x": X}), {"x": X}, 1)
    assert results["y0"].dtype == np.float32 and np.array_equal(results["y0"], np.abs(X))
    node = helper.make_node("Nonsense", ["x"], ["y"], domain="own")
    with pytest.raises(VerificationError, match="ONNX Runtime cannot run"):
        run_onnxruntime(graph_of([node], {"x": X}, ["y"], domains={"own": 1}), {"x": X}, 1)


@pytest.mark.parametrize("opset", [13, 18, 21])
def test_bytes_are_scaled_in_double_in_every_operator_set(opset: int) -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"]),
    ]
    model = graph_of(nodes, {"x": X}, ["y"])
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("", opset))
    result = run_float64(model, {"x": X})["y"]
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, X, atol=6 / 255 / 2 + 1e-12)


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_may_give_one_value_twice_or_one_from_outside(condition: bool) -> None:
    twice = [helper.make_tensor_value_info("r", 1, [7])] * 2
    outside = [helper.make_tensor_value_info("x", 1, [7])] * 2
    node = helper.make_node(
        "If",
        ["c"],
        ["y", "z"],
        then_branch=helper.make_graph([helper.make_node("Neg", ["x"], ["r"])], "then", [], twice),
        else_branch=helper.make_graph([], "else", [], outside),
    )
    feeds = {"x": X, "c": np.array(condition)}
    proto = graph_of([node], feeds, ["y", "z"])
    for results in (run_float64(proto, feeds), run_onnxruntime(proto, feeds, 1)):
        assert all(np.array_equal(results[name], -X if condition else X) for name in ("y", "z"))


def test_nodes_of_a_branch_are_computed_in_double() -> None:
    inner = helper.make_node("Gelu", ["x"], ["r"], domain="com.microsoft")  # float32 constants in its definition
    branches = [helper.make_graph([inner], "b", [], [helper.make_tensor_value_info("r", 1, [7])]) for _ in range(2)]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    feeds = {"x": X, "c": np.array(True)}
    wide = X.astype(np.float64)
    expected = wide / 2 * (1 + np.array([math.erf(value / math.sqrt(2)) for value in wide]))
    proto = graph_of([node], feeds, ["y"], domains={"com.microsoft": 1})
    np.testing.assert_allclose(run_float64(proto, feeds)["y"], expected, rtol=1e-14)


@pytest.mark.parametrize("axis", [-1, 1])
def test_mean_and_deviation_of_a_layer_norm_in_double(axis: int) -> None:
    x = (np.random.default_rng(0).standard_normal((3, 4, 5)) * 0.1 + 1000).astype(np.float32)
    axes = tuple(range(axis % 3, 3))
    scale = {"s": np.full(x.shape[axis:], 2, np.float32)}
    wide = x.astype(np.float64)
    mean, variance = wide.mean(axes, keepdims=True), wide.var(axes, keepdims=True)
    results = run_float64(single("LayerNormalization", {"x": x}, scale, outputs=3, axis=axis, epsilon=1e-3), {"x": x})
    np.testing.assert_allclose(results["y1"], mean, rtol=1e-14)
    np.testing.assert_allclose(results["y2"], 1 / np.sqrt(variance + np.float32(1e-3)), rtol=1e-9)
    np.testing.assert_allclose(results["y0"], (wide - mean) * results["y2"] * 2, rtol=1e-12)


def test_functions_mean_what_their_own_operator_set_says() -> None:
    """Softmax flattened its input before set 13; ONNX Runtime takes the model's set for a function's."""
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    proto = graph_of([helper.make_node("F", ["x"], ["y"], domain="own")], {"x": x}, ["y"], domains={"own": 1})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, x.shape))
    inner = [helper.make_node("Softmax", ["a"], ["b"], axis=1)]
    proto.functions.append(helper.make_function("own", "F", ["a"], ["b"], inner, [helper.make_opsetid("", 11)]))
    flat = np.exp(x.reshape(2, 12).astype(np.float64))
    expected = (flat / flat.sum(-1, keepdims=True)).reshape(x.shape)
    np.testing.assert_allclose(run_float64(proto, {"x": x})["y"], expected, rtol=1e-12)
    np.testing.assert_allclose(run_onnxruntime(proto, {"x": x}, 1)["y"], expected, rtol=1e-5)


@pytest.mark.parametrize("largest", [0, 1])
def test_the_best_are_in_order_where_the_model_leaves_it_open(largest: int) -> None:
    """ONNX Runtime gives them in order of place if all are asked for."""
    proto = single("TopK", {"x": X}, {"k": np.array([7])}, outputs=2, largest=largest, sorted=0)
    for results in (run_float64(proto, {"x": X}), run_onnxruntime(proto, {"x": X}, 1)):
        assert results["y1"].tolist() == (list(range(7))[::-1] if largest else list(range(7)))
        assert np.array_equal(results["y0"], X[results["y1"]])


def test_scores_of_attention_are_handed_out_before_they_are_capped() -> None:
    q = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)
    feeds = {"q": q, "k": q, "v": q}
    model = single("Attention", feeds, outputs=4, opset=23, softcap=0.5, qk_matmul_output_mode=0, scale=1.0)
    wide = q.astype(np.float64)
    scores = wide @ wide.transpose(0, 1, 3, 2)
    results = run_float64(model, feeds)
    np.testing.assert_allclose(results["y3"], scores, rtol=1e-12)
    weights = np.exp(np.tanh(scores * 2) / 2)
    np.testing.assert_allclose(results["y0"], weights / weights.sum(-1, keepdims=True) @ wide, rtol=1e-12)


def test_log_softmax_of_distant_and_infinite_values() -> None:
    x = np.array([[0, 1000, -1000], [0, math.inf, 1], [-math.inf, 0, 0]], np.float32)
    results = run_float64(single("LogSoftmax", {"x": x}), {"x": x})["y0"]
    expected = [[-1000, 0, -2000], [math.nan] * 3, [-math.inf, -math.log(2), -math.log(2)]]
    np.testing.assert_allclose(results, expected, rtol=1e-15)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
def test_softmax_and_its_kin_flattened_their_input_once(operator: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    old = run_float64(single(operator, {"x": x}, opset=11, axis=1), {"x": x})["y0"]
    flat = x.reshape(2, 12)
    new = run_float64(single(operator, {"x": flat}, axis=1), {"x": flat})["y0"]
    assert np.array_equal(old, new.reshape(x.shape))


@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_scores_of_attention_are_scaled_in_double(scale: float) -> None:
    q = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)
    model = single("Attention", {"q": q, "k": q, "v": q}, outputs=4, opset=23, scale=scale)
    wide = q.astype(np.float64)
    scores = np.float64(np.float32(scale)) * (wide @ wide.transpose(0, 1, 3, 2))
    np.testing.assert_allclose(run_float64(model, {"q": q, "k": q, "v": q})["y3"], scores, rtol=1e-12)


@pytest.mark.parametrize("shape", [(1, 3), (3,)])
def test_a_mask_for_all_queries_hides_later_keys_too_where_attention_is_causal(shape: tuple[int, ...]) -> None:
    q = np.random.default_rng(0).standard_normal((1, 2, 3, 4)).astype(np.float32)
    feeds = {"q": q, "k": q, "v": q, "mask": np.array([0.5, 0, 1], np.float32).reshape(shape)}
    wide = q.astype(np.float64)
    scores = wide @ wide.transpose(0, 1, 3, 2) / 2 + feeds["mask"] + np.triu(np.full((3, 3), -np.inf), 1)
    weights = np.exp(scores)
    results = run_float64(single("Attention", feeds, opset=23, is_causal=1), feeds)
    np.testing.assert_allclose(results["y0"], weights / weights.sum(-1, keepdims=True) @ wide, rtol=1e-12)


def test_no_opinion_on_the_mean_of_nothing_counts_as_wrong() -> None:
    """ONNX leaves it open; ONNX Runtime's is 0, that of the reference NaN."""
    x = np.zeros((3, 0), np.float32)
    proto = single("ReduceMean", {"x": x}, {"axes": np.array([1])})
    exact, runtime = run_float64(proto, {"x": x})["y0"], run_onnxruntime(proto, {"x": x}, 1)["y0"]
    assert np.isnan(exact).all() and not runtime.any()
    for got in (np.full((3, 1), np.nan, np.float32), np.zeros((3, 1), np.float32)):
        assert compare(got, exact, runtime, "float32").passed
    assert not compare(np.full((3, 1), np.inf, np.float32), exact, runtime, "float32").passed


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"low": np.float32(0)}, [0, 2, np.inf, np.nan]),
        ({"_low": np.float32(0), "high": np.float32(1)}, [-np.inf, 1, 1, np.nan]),
        ({}, [-np.inf, 2, np.inf, np.nan]),
    ],
    ids=["below", "above", "not"],
)
def test_an_infinity_passes_where_a_bound_is_left_out(bounds: dict[str, np.ndarray], expected: list[float]) -> None:
    """So says the operator's definition; ONNX Runtime makes it the largest number, which counts as right as well."""
    x = np.array([-np.inf, 2, np.inf, np.nan], np.float32)
    proto = single("Clip", {"x": x}, bounds)
    exact, runtime = run_float64(proto, {"x": x})["y0"], run_onnxruntime(proto, {"x": x}, 1)["y0"]
    np.testing.assert_array_equal(exact, expected)
    for got in (*lower_and_run(proto, {"x": x}), runtime):
        assert compare(got, exact, runtime, "float32").passed


def test_nothing_is_left_out_where_the_graph_rounds_to_half_precision() -> None:
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"]),
        helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT),
    ]
    half = X.astype(np.float16)
    model = graph_of(nodes, {"x": half}, ["y"])
    got, exact = run_rounded(model, {"x": half})["y"], run_float64(model, {"x": half})["y"]
    assert got.dtype == np.float32 and np.array_equal(got, got.astype(np.float16))
    assert 0 < np.abs(got - exact).max() < 1e-3


def test_results_that_the_reference_leaves_in_float32_are_rounded() -> None:
    """Gemma's activation in bfloat16: with ml_dtypes 0.6 ONNX's reference makes float32 of it, and can't multiply that.

    With 0.7 it rounds every step to bfloat16, 1 + tanh(x) by 2**-8 among them, which comes times half of x and times x.
    """
    nodes = [helper.make_node("Gelu", ["x"], ["g"], approximate="tanh"), helper.make_node("Mul", ["g", "x"], ["y"])]
    x = X.astype(ml_dtypes.bfloat16)
    model = graph_of(nodes, {"x": x}, ["y"], opset=20)
    got, exact = run_rounded(model, {"x": x})["y"], run_float64(model, {"x": x})["y"]
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(got.astype(float), exact, rtol=2e-2, atol=np.square(X).max() / 2 * 2**-8)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "nearest"])
def test_samples_of_a_grid_in_double_by_the_older_names_of_modes(mode: str) -> None:
    random = np.random.default_rng(0)
    x, grid = (
        random.standard_normal((1, 1, 4, 4)).astype(np.float32),
        random.uniform(-1, 1, (1, 2, 2, 2)).astype(np.float32),
    )
    feeds = {"x": x, "grid": grid}
    older = single("GridSample", feeds, mode=mode)
    newer = single("GridSample", feeds, opset=20, mode=mode.removeprefix("bi"))
    got = run_float64(older, feeds)["y0"]
    assert got.dtype == np.float64 and np.array_equal(got, run_float64(newer, feeds)["y0"])
    np.testing.assert_allclose(got, run_onnxruntime(older, feeds, 1)["y0"], rtol=1e-5, atol=1e-6)


def test_large_weights_are_widened_one_after_another() -> None:
    weights = {f"w{k}": np.random.default_rng(k).standard_normal((1024, 1024)).astype(np.float32) for k in range(8)}
    names = ["x", *(f"p{k}" for k in range(7)), "y"]
    nodes = [helper.make_node("MatMul", [names[k], f"w{k}"], [names[k + 1]]) for k in range(8)]
    x = np.full((1, 1024), 0.01, np.float32)
    model = graph_of(nodes, {"x": x}, ["y"], weights)
    tracemalloc.start()
    try:
        result = run_float64(model, {"x": x})["y"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    exact = x.astype(np.float64)
    for weight in weights.values():
        exact = exact @ weight.astype(np.float64)
    np.testing.assert_allclose(result, exact, rtol=1e-10)
    assert peak < sum(weight.nbytes for weight in weights.values()) * 1.5, "all of them in float64 take twice as much"
