"""Our converters against float64, where the stock ones fail or differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
from onnx import ModelProto, helper

from redfuser.frontend import lower
from redfuser.oracle import run_float64
from tests.frontend.running import graph_of, loaded, lower_and_run, run, single

RNG = np.random.default_rng(0)
NAN, INF = math.nan, math.inf


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def check(proto: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Every output is what float64 gives, in the type that ONNX says."""
    lowered = lower(loaded(proto))
    got, expected = run(lowered, feeds), run_float64(proto, feeds)
    for spec, value in zip(lowered.outputs, got, strict=True):
        assert str(value.dtype) == spec.dtype
        tolerance = {"float32": 1e-5, "float16": 2e-3}.get(spec.dtype, 0)
        np.testing.assert_allclose(value, expected[spec.name], rtol=tolerance, atol=tolerance)
    return got


Q, K, V = normal(2, 4, 3, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 6)
QKV = {"q": Q, "k": K, "v": V}
SEEN = np.array([[True, True, False, False, True], [False] * 5, [True] * 5])


def test_attention_of_grouped_heads() -> None:
    check(single("Attention", QKV, opset=23), QKV)


@pytest.mark.parametrize(
    "attributes", [{"is_causal": 1}, {"softcap": 2.0}, {"scale": 0.3}, {"is_causal": 1, "softcap": 1.0}]
)
def test_attention_attributes(attributes: dict[str, float]) -> None:
    check(single("Attention", QKV, opset=23, **attributes), QKV)


def test_attention_of_flat_heads() -> None:
    feeds = {"q": normal(2, 3, 32), "k": normal(2, 5, 16), "v": normal(2, 5, 12)}
    check(single("Attention", feeds, opset=23, q_num_heads=4, kv_num_heads=2), feeds)


@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_attention_rows_that_see_nothing_are_zero(kind: str) -> None:
    mask = SEEN if kind == "bool" else np.where(SEEN, 0.5, -INF).astype(np.float32)
    feeds = {**QKV, "mask": np.broadcast_to(mask, (2, 1, 3, 5)).copy()}
    got = check(single("Attention", feeds, opset=23), feeds)[0]
    assert not got[:, :, 1].any()


def test_attention_with_a_constant_mask() -> None:
    got = check(single("Attention", QKV, {"mask": SEEN}, opset=23), QKV)[0]
    assert not got[:, :, 1].any()
    nothing_hidden = lower(loaded(single("Attention", QKV, {"mask": np.ones((3, 5), bool)}, opset=23)))
    without_mask = lower(loaded(single("Attention", QKV, opset=23)))
    assert len(nothing_hidden.provenance) == len(without_mask.provenance)


def test_attention_with_a_short_mask_is_padded() -> None:
    feeds = {**QKV, "mask": normal(3, 4)}
    check(single("Attention", feeds, opset=23), feeds)


def test_attention_with_a_cache() -> None:
    feeds = {**QKV, "_mask": Q, "past_k": normal(2, 2, 4, 8), "past_v": normal(2, 2, 4, 6)}
    feeds.pop("_mask")
    names = ["q", "k", "v", "", "past_k", "past_v"]
    node = helper.make_node("Attention", names, ["y", "pk", "pv", "qk"], is_causal=1, qk_matmul_output_mode=3)
    check(graph_of([node], feeds, ["y", "pk", "pv", "qk"], opset=23), feeds)


@pytest.mark.parametrize("attributes", [{}, {"is_causal": 1}])
def test_attention_with_padded_keys(attributes: dict[str, int]) -> None:
    feeds = {**QKV, "valid": np.array([2, 5])}
    node = helper.make_node("Attention", ["q", "k", "v", "", "", "", "valid"], ["y"], **attributes)
    check(graph_of([node], feeds, ["y"], opset=24), feeds)


def test_attention_in_half_precision_accumulates_wide() -> None:
    feeds = {name: value.astype(np.float16) for name, value in QKV.items()}
    check(single("Attention", feeds, opset=23), feeds)


@pytest.mark.parametrize("operator", ["MatMul", "ReduceSum", "ReduceMean", "Softmax"])
def test_half_precision_accumulates_wide(operator: str) -> None:
    x = np.full((1, 4096), 1.001, np.float16)
    inputs = {"x": x, "w": np.ones((4096, 1), np.float16)} if operator == "MatMul" else {"x": x}
    got = lower_and_run(single(operator, inputs), inputs)[0]
    exact = run_float64(single(operator, inputs), inputs)["y0"]
    assert np.allclose(got, exact.astype(np.float16), rtol=1e-3)


def test_top_k_ties_infinities_and_nan() -> None:
    x = np.array([[1, 3, 3, -INF, NAN, 3], [-INF, -INF, -INF, -INF, -INF, -INF], [0, -0.0, 0, 1, NAN, NAN]], np.float32)
    values, indices = lower_and_run(single("TopK", {"x": x}, {"k": np.array([4])}, outputs=2), {"x": x})
    assert indices.tolist() == [[4, 1, 2, 5], [0, 1, 2, 3], [4, 5, 3, 0]] and indices.dtype == np.int64
    assert np.array_equal(values, np.take_along_axis(x, indices, 1), equal_nan=True)


@pytest.mark.parametrize("attributes", [{"axis": 0}, {"axis": 1, "largest": 0}, {"axis": 2}])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_top_k_along_any_axis(attributes: dict[str, int], dtype: type) -> None:
    x = RNG.integers(0, 9, (3, 4, 5)).astype(dtype)
    check(single("TopK", {"x": x}, {"k": np.array([2])}, outputs=2, **attributes), {"x": x})


def test_top_k_unsorted_is_sorted_too() -> None:
    x = normal(3, 6)
    sorted_, unsorted = (single("TopK", {"x": x}, {"k": np.array([3])}, outputs=2, sorted=flag) for flag in (1, 0))
    assert np.array_equal(lower_and_run(sorted_, {"x": x})[1], lower_and_run(unsorted, {"x": x})[1])


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumulative_sums(exclusive: int, reverse: int) -> None:
    x = RNG.integers(-9, 9, (2, 5, 3))
    check(single("CumSum", {"x": x}, {"axis": np.array(1)}, exclusive=exclusive, reverse=reverse), {"x": x})


def test_run_time_indices_wrap_once_and_never_leave_the_data() -> None:
    x, indices = normal(4, 3), np.array([[0, -1], [3, -4]])
    check(single("Gather", {"x": x, "i": indices}), {"x": x, "i": indices})
    beyond = np.array([[4, -5], [1 << 40, -(1 << 40)]])
    got = lower_and_run(single("Gather", {"x": x, "i": beyond}), {"x": x, "i": beyond})[0]
    assert np.array_equal(got, x[np.array([[3, 0], [3, 0]])])


@pytest.mark.parametrize(
    ("operator", "indices", "attributes"),
    [
        ("Gather", [[0, 1, 2]], {"axis": 1}),
        ("Gather", [2, 0], {"axis": 1}),
        ("Gather", [2, 1, 0], {"axis": -1}),
        ("Gather", 1, {"axis": 0}),
        ("Gather", [0, 2, 1], {"axis": 1}),
        ("GatherElements", [[2, 1, 0], [2, 1, 0], [2, 1, 0], [2, 1, 0]], {"axis": 1}),
        ("GatherElements", [[0, 1, 1]], {"axis": 0}),
        ("GatherND", [[[0, 0], [0, 1]], [[1, 0], [1, 1]]], {}),
        ("GatherND", [[3], [0]], {}),
        ("GatherND", [[0], [1], [2], [0]], {"batch_dims": 1}),
    ],
)
@pytest.mark.parametrize("is_constant", [True, False])
def test_gathers(operator: str, indices: list[int], attributes: dict[str, int], is_constant: bool) -> None:
    x, table = normal(4, 3), np.array(indices)
    feeds = {"x": x} if is_constant else {"x": x, "i": table}
    check(single(operator, feeds, {"i": table} if is_constant else None, **attributes), feeds)


def test_affine_tables_become_plain_loads() -> None:
    x = normal(4, 6)
    for table, loads_table in (([4, 2, 0], False), ([0, 1, 3], True)):
        lowered = lower(loaded(single("Gather", {"x": x}, {"i": np.array(table)}, axis=1)))
        (function,) = [f for v, f in lowered.module.functions_items() if v.name_hint != "main"]
        assert (len(function.params) == 3) == loads_table


def test_clip_keeps_nan() -> None:
    x = np.array([-2, -1, 0, 1, 2, NAN, INF, -INF], np.float32)
    numbers = {"low": np.array(-1, np.float32), "high": np.array(1.5, np.float32)}
    check(single("Clip", {"x": x}, numbers), {"x": x})
    check(single("Clip", {"x": x, **numbers}), {"x": x, **numbers})
    finite = {"x": x[:6]}
    check(single("Clip", finite, {"_low": x, "high": numbers["high"]}), finite)
    crossed = {"low": np.array(1, np.float32), "high": np.array(-1, np.float32)}
    assert np.nanmax(lower_and_run(single("Clip", {"x": x}, crossed), {"x": x})[0]) == -1


def test_infinities_of_either_sign() -> None:
    x = np.array([INF, -INF, NAN, 1], np.float32)
    for attributes in ({}, {"detect_negative": 0}, {"detect_positive": 0}):
        check(single("IsInf", {"x": x}, opset=20, **attributes), {"x": x})


@pytest.mark.parametrize("exponent", [np.float32(2), np.float32(3), np.float32(0.5), np.int64(3)])
def test_powers(exponent: np.generic) -> None:
    x = np.abs(normal(2, 3)) + 0.1
    check(single("Pow", {"x": x}, {"e": np.array(exponent)}), {"x": x})


def test_powers_of_integers() -> None:
    x = np.array([[-3, 2, 7]])
    check(single("Pow", {"x": x, "e": np.array([3, 10, 2])}), {"x": x, "e": np.array([3, 10, 2])})


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
def test_extrema_of_infinities(operator: str) -> None:
    x = np.array([[-INF, -INF], [INF, INF], [1, -2]], np.float32)
    proto = single(operator, {"x": x}, {"axes": np.array([1])})
    check(proto, {"x": x})
    assert len(lower(loaded(proto)).provenance) == 1


def test_extrema_without_axes() -> None:
    x = normal(2, 3)
    check(single("ReduceMax", {"x": x}, keepdims=0), {"x": x})
    check(single("ReduceMax", {"x": x}, noop_with_empty_axes=1), {"x": x})
    check(single("ReduceMax", {"x": x}, opset=17, axes=[1]), {"x": x})
    flags = x > 0
    check(single("ReduceMin", {"x": flags}, opset=20), {"x": flags})


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32])
def test_means_of_integers(dtype: type) -> None:
    x = np.array([[1, 2, 4], [7, 8, 9]], dtype)
    check(single("ReduceMean", {"x": x}, {"axes": np.array([1])}), {"x": x})


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize(
    "operator", [f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "SumSquare", "Sum")]
)
def test_reductions_over_no_axes_still_map_each_element(operator: str, given: bool) -> None:
    x = np.array([[1.5, -2, 0.25]], np.float32)
    axes = {"axes": np.array([], np.int64)} if given else None
    check(single(operator, {"x": x}, axes, noop_with_empty_axes=1), {"x": x})
    check(single(operator, {"x": x}, axes, noop_with_empty_axes=0), {"x": x})


def test_log_sum_exp_of_infinities() -> None:
    x = np.array([[-INF, -INF, -INF], [INF, 0, 1], [100, 200, 300]], np.float32)
    check(single("ReduceLogSumExp", {"x": x}, {"axes": np.array([1])}, keepdims=0), {"x": x})


def test_layer_norm_with_its_statistics() -> None:
    x = normal(2, 3, 4) * 3 + 1
    check(single("LayerNormalization", {"x": x}, {"s": normal(3, 4), "b": normal(3, 4)}, outputs=3, axis=1), {"x": x})
    check(single("LayerNormalization", {"x": x}, {"s": normal(4)}), {"x": x})


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_layer_norm_keeps_statistics_in_single_precision_whatever_the_data(dtype: type) -> None:
    x = (normal(3, 40) * 3 + 1).astype(dtype)
    weights = {"s": normal(40).astype(dtype), "b": normal(40).astype(dtype)}
    proto = single("LayerNormalization", {"x": x}, weights, outputs=3)
    got, expected = lower_and_run(proto, {"x": x}), run_float64(proto, {"x": x})
    assert [str(value.dtype) for value in got] == [np.dtype(dtype).name, "float32", "float32"]
    for value, name, tolerance in zip(got, expected, (2e-3 if dtype is np.float16 else 1e-13, 1e-6, 1e-6), strict=True):
        np.testing.assert_allclose(value, expected[name], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("operator", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("attributes", [{}, {"epsilon": 0.1}])
def test_norms_of_double_precision_are_in_double(operator: str, attributes: dict[str, float]) -> None:
    x = RNG.standard_normal((2, 3, 4))
    proto = single(operator, {"x": x}, {"s": RNG.standard_normal((3, 4))}, opset=23, axis=1, **attributes)
    np.testing.assert_allclose(lower_and_run(proto, {"x": x})[0], run_float64(proto, {"x": x})["y0"], rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_mean_variance_norm_of_constant_and_distant_values(dtype: type) -> None:
    x = (normal(2, 3, 8) * 0.1 + 50).astype(dtype)
    x[0, 0] = 3  # neither NaN nor what E[x²] − E[x]² leaves of a variance of zero
    proto = single("MeanVarianceNormalization", {"x": x}, axes=[2])
    expected = run_float64(proto, {"x": x})["y0"]
    np.testing.assert_allclose(lower_and_run(proto, {"x": x})[0], expected, atol=2e-3 if dtype is np.float16 else 2e-4)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_rms_norm_over_any_axes(axis: int) -> None:
    x = normal(2, 3, 4)
    check(single("RMSNormalization", {"x": x}, {"s": normal(*x.shape[axis:])}, opset=23, axis=axis), {"x": x})


def test_batch_norm() -> None:
    x = normal(2, 3, 4, 5)
    weights = {"s": normal(3), "b": normal(3), "m": normal(3), "v": np.abs(normal(3)) + 0.1}
    check(single("BatchNormalization", {"x": x}, weights), {"x": x})


@pytest.mark.parametrize("x", [np.zeros(4, np.float32), normal(64) * 3 + 2, -np.abs(normal(8))])
def test_dynamic_quantisation(x: np.ndarray) -> None:
    check(single("DynamicQuantizeLinear", {"x": x}, outputs=3), {"x": x})


def test_gemm() -> None:
    feeds = {"a": normal(3, 2), "b": normal(4, 3), "c": normal(4)}
    check(single("Gemm", feeds, transA=1, transB=1, alpha=0.5, beta=2.0), feeds)
    check(single("Gemm", {"a": feeds["a"], "b": normal(2, 4)}), {"a": feeds["a"], "b": normal(2, 4)})


def test_reshape_by_the_rules() -> None:
    x = normal(2, 3, 4)
    check(single("Reshape", {"x": x}, {"s": np.array([0, -1])}), {"x": x})
    empty = np.zeros((0, 3), np.float32)
    check(single("Reshape", {"x": empty}, {"s": np.array([3, 0])}, allowzero=1), {"x": empty})


TIES = np.array([[1, 3, 3, 0, 0], [np.nan, 2, np.nan, 9, -1], [-np.inf, -np.inf, 5, 5, -np.inf]], np.float32)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("value", [-np.inf, np.inf, 0.0])
def test_hardmax_of_equal_elements_is_the_first(value: float, axis: int) -> None:
    x = np.full((3, 4), value, np.float32)
    (got,) = lower_and_run(single("Hardmax", {"x": x}, axis=axis), {"x": x})
    assert got.dtype == np.float32 and (got.argmax(axis) == 0).all() and (got.sum(axis) == 1).all()


def test_hardmax_is_where_the_largest_element_is() -> None:
    (got,) = lower_and_run(single("Hardmax", {"x": TIES}), {"x": TIES})
    assert got.argmax(1).tolist() == [1, 0, 2] and (got.sum(1) == 1).all()


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_arg_extrema_with_ties(operator: str, last: int, axis: int) -> None:
    x = np.round(normal(4, 7) * 1.5)
    for keep in (0, 1):
        check(single(operator, {"x": x}, axis=axis, keepdims=keep, select_last_index=last), {"x": x})


def test_arg_extrema_count_nan_as_largest() -> None:
    (first,) = lower_and_run(single("ArgMax", {"x": TIES}, axis=1), {"x": TIES})
    (last,) = lower_and_run(single("ArgMax", {"x": TIES}, axis=1, select_last_index=1), {"x": TIES})
    (least,) = lower_and_run(single("ArgMin", {"x": TIES}, axis=1), {"x": TIES})
    assert first.dtype == np.int64
    assert first.ravel().tolist() == [1, 0, 2] and last.ravel().tolist() == [2, 2, 3]
    assert least.ravel().tolist() == [3, 4, 0]


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.int64, np.uint8])
def test_arg_max_of_any_type(dtype: type) -> None:
    x = np.arange(12).reshape(3, 4)[::-1].astype(dtype)
    (found,) = lower_and_run(single("ArgMax", {"x": x}, axis=0), {"x": x})
    assert found.ravel().tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_casts_to_small_integers_wrap_and_have_no_numbers_for_what_is_not_finite(dtype: str) -> None:
    x = np.array(
        [0.0, -0.9, 1.9, -3.5, 127.0, 128.0, -129.0, 300.0, 70000.0, -70000.0, 3e9, NAN, INF, -INF], np.float32
    )
    proto = single("Cast", {"x": x}, to=int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))
    (got,) = run(lower(loaded(proto)), {"x": x})
    inside = np.where(np.abs(x) < 2**31, x, 0).astype(np.int64)
    np.testing.assert_array_equal(got, inside.astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 5, 4)], ids=str)
def test_instance_norm_takes_the_mean_once(shape: tuple[int, ...], dtype: str) -> None:
    feeds = {"x": (normal(*shape) + 4).astype(dtype), "scale": normal(3).astype(dtype), "bias": normal(3).astype(dtype)}
    proto = single("InstanceNormalization", feeds, epsilon=1e-3)
    check(proto, feeds)
    folds = [str(function).count("T.init()") for function in lower(loaded(proto)).module.functions.values()]
    assert sum(folds) == 1, "the same function gives mean and variance"
