"""ONNX's own node cases through the whole compiler: a few by default, all of them slow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from redfuser.errors import RedFuserError, UnsupportedOperatorError
from redfuser.oracle.run import run_float64
from tests.backend.adapter import CompiledBackend, deciding_inputs
from tests.backend.cases import FAMILIES, arrays, cases, check, family_of
from tests.backend.expected import NEARER_TO_FLOAT64

#: One of most families, and the types that are rare.
QUICK = (
    "test_attention_4d_diff_heads_with_past_and_present_mask3d",
    "test_argmax_keepdims_random_select_last_index",
    "test_cumsum_2d_axis_1",
    "test_dequantizelinear_e4m3fn_zero_point",
    "test_dequantizelinear_int4",
    "test_einsum_inner_prod",
    "test_group_normalization_epsilon",
    "test_gru_batchwise",
    "test_l2normalization_axis_1",
    "test_lstm_with_peepholes",
    "test_qlinearmatmul_3D_uint8_float16",
    "test_quantizelinear_blocked_asymmetric",
    "test_quantizelinear_e5m2",
    "test_quantizelinear_float4e2m1",
    "test_reduce_log_sum_exp_negative_axes_keepdims_random",
    "test_rotary_embedding_interleaved",
    "test_simple_rnn_with_initial_bias",
    "test_top_k_same_values",
)


def compiled(model: ModelProto, inputs: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
    return CompiledBackend.prepare(model).run(inputs)


@pytest.mark.parametrize("name", QUICK)
def test_some_cases(name: str) -> None:
    check(cases()[name], compiled)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_family(family: str) -> None:
    failures = []
    for name, case in cases().items():
        if family_of(name) == family and name not in NEARER_TO_FLOAT64:
            try:
                check(case, compiled)
            except (AssertionError, RedFuserError) as error:
                failures.append(f"{name}: {type(error).__name__}: {error}")
    assert not failures, "\n".join(failures)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEARER_TO_FLOAT64)
def test_case_with_another_answer(name: str) -> None:
    """Ours is nearer to float64; whether it meets ONNX's too is for the order of its sums, which depends on caches."""
    case = cases()[name]
    inputs, expected = (arrays(values) for values in case.data_sets[0])
    exact = run_float64(case.model, dict(zip([value.name for value in case.model.graph.input], inputs, strict=True)))
    for ours, theirs, answer in zip(compiled(case.model, inputs), expected, exact.values(), strict=True):
        assert error(ours, answer) <= error(theirs, answer)


def error(values: np.ndarray, exact: np.ndarray) -> float:
    return float(np.sqrt(np.mean((values.astype(np.float64) - exact) ** 2)))


def test_every_family_has_cases() -> None:
    assert {family_of(name) for name in cases()} == set(FAMILIES)
    assert set(QUICK) <= set(cases())


def test_what_decides_a_shape_is_fixed() -> None:
    assert deciding_inputs(cases()["test_top_k"].model) == {"k"}
    assert deciding_inputs(cases()["test_reduce_max_keepdims_example"].model) == {"axes"}
    assert not deciding_inputs(cases()["test_softmax_example"].model)


def test_the_backend_says_where_it_runs() -> None:
    assert CompiledBackend.supports_device("CPU")
    assert not CompiledBackend.supports_device("CUDA")


def test_types_that_are_not_supported_are_refused_by_name() -> None:
    for kind, words in ((TensorProto.FLOAT8E4M3FNUZ, "float8_e4m3fnuz"), (TensorProto.COMPLEX64, "complex64")):
        value, result = (helper.make_tensor_value_info(name, kind, [2]) for name in ("x", "y"))
        graph = helper.make_graph([helper.make_node("Reshape", ["x", "s"], ["y"])], "g", [value], [result])
        graph.initializer.append(helper.make_tensor("s", TensorProto.INT64, [1], [2]))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        with pytest.raises(UnsupportedOperatorError, match=f"'x' holds {words}"):
            compiled(model, [np.zeros(2, helper.tensor_dtype_to_np_dtype(kind))])
