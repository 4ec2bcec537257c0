"""Real and exported models, whole: compiled, run, held against float64 and ONNX Runtime, cascades counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import redfuser
from redfuser.accuracy import compare
from redfuser.frontend import load_model
from redfuser.oracle.run import run_onnxruntime
from redfuser.progress import Silent
from redfuser.samples import random_inputs
from redfuser.verification import compare_with_oracle

#: exported model -> attentions it contains; each must be fused
ATTENTIONS = {
    "minilm_realweights__dyn18": 6,
    "bert__eager18": 2,
    "bert__sdpa18": 2,
    "bert__sdpa23": 2,
    "bert__ts14": 2,
    "bert__dyn18": 2,
    "gpt2__eager18": 2,
    "gpt2__sdpa18": 2,
    "llama__eager18": 2,
    "llama__sdpa18": 2,
    "llama__sdpa23": 2,
    "llama__dyn18": 2,
    "llama__ts14": 2,
    "vit__eager18": 2,
    "vit__sdpa23": 2,
    "distilbert__sdpa18": 2,
    "opt__eager18": 2,
    "clip__eager18": 4,
    "clip__sdpa23": 4,
    "bloom__eager18": 2,
    "t5__eager18": 6,
    "t5__sdpa18": 6,
    "convnext__eager18": 0,
    "bert__fp16": 2,
    "llama__fp16": 2,
    "gemma2__fp16": 2,
    "falcon_alibi__sdpa18": 2,
    "mixtral__eager18": 2,
    "mixtral__sdpa23": 2,
    "qwen2_moe__eager18": 2,
    "qwen2_moe__sdpa23": 2,
    "deepseek_v3__eager18": 2,
    "deepseek_v3__sdpa23": 2,
    "deepseek_v3__fp16": 2,
}

#: architecture -> chains of routing it contains; each must be fused
ROUTINGS = {"mixtral": 2, "qwen2_moe": 2, "deepseek_v3": 2}

#: real model -> (shape of its input x, attentions)
REAL = {
    "rapidocr_onnxruntime__ch_PP-OCRv4_rec_infer": ((1, 3, 48, 160), 2),
    "rapidocr_onnxruntime__ch_PP-OCRv4_det_infer": ((1, 3, 64, 64), 0),
}


def attentions(report: redfuser.FusionReport) -> tuple[int, int]:
    """How many were found, and how many fused."""
    return count(report, "attention")


def count(report: redfuser.FusionReport, kind: str) -> tuple[int, int]:
    """How many cascades of a kind were found, and how many fused."""
    return report.kinds().get(kind, 0), report.kinds(fused_only=True).get(kind, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTENTIONS)
def test_exported_model(name: str, corpus: Path, tmp_path: Path) -> None:
    model = corpus / "exported" / f"{name}.onnx"
    feeds = dict(np.load(model.with_suffix(".npz")))
    artifact = redfuser.compile(model, output=tmp_path / "out", shapes={k: v.shape for k, v in feeds.items()})
    assert attentions(artifact.report) == (ATTENTIONS[name], ATTENTIONS[name])
    routings = ROUTINGS.get(name.partition("__")[0], 0)
    assert count(artifact.report, "routing") == (routings, routings)
    for output in compare_with_oracle(artifact.path, model, [({}, feeds)], 2, Silent()):
        assert output.accuracy.passed, str(output)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_model(name: str, corpus: Path, tmp_path: Path) -> None:
    shape, expected = REAL[name]
    model = corpus / "real" / f"{name}.onnx"
    artifact = redfuser.compile(model, output=tmp_path / "out", shapes={"x": shape})
    assert attentions(artifact.report) == (expected, expected)
    feeds = random_inputs(artifact.manifest.inputs, seed=0)
    for output in compare_with_oracle(artifact.path, model, [({}, feeds)], 2, Silent()):
        assert output.accuracy.passed, str(output)


EDGE = (
    *("attn_finfomin_fullrow", "attn_long", "attn_neginf_fullrow_guard", "attn_odd"),
    *("mask_twice_min_plus_min", "softmax1_naive", "softmax1_wrong_but_real", "softmax_axis1_4d"),
    *("softmax_empty_dim", "softmax_opset11_default", "softmax_row_all_neginf", "log_of_softmax_underflow"),
    *("attention23_boolmask_fullrow", "attention23_softcap_neginf_poison", "fp16_qk_prescale_q"),
    *("layernorm_dec_mean1e4", "layernorm_dec_mean8e4", "layernorm_op_mean1e6", "variance_ex2_mean1e6"),
    *("rmsnorm_fp16_cast", "reduce_empty_dim", "reducesum_int64"),
    *("topk_int64", "topk_nan", "topk_ties_low_index", "variance_dec_mean1e4", "variance_dec_mean8e4"),
    *("dql_all_zero", "reducemean_empty_axes_noop0"),
)
LONG = ("attn_long",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in EDGE]
)
def test_edge_case(name: str, corpus: Path, tmp_path: Path) -> None:
    """The float64 answer, with NaN and infinities exactly where it has them."""
    model = corpus / "edge" / f"{name}.onnx"
    data = dict(np.load(model.with_suffix(".npz")))
    module = redfuser.compile(model, output=tmp_path / "out").load()
    feeds = {spec.name: data[f"i_{spec.name}"] for spec in module.manifest.inputs}
    unfused = run_onnxruntime(load_model(model).proto, feeds, 1)
    for output, value in module(feeds).items():
        expected = data[f"o_{output}"]
        np.testing.assert_array_equal(np.isnan(value), np.isnan(expected))
        np.testing.assert_array_equal(np.isinf(value), np.isinf(expected))
        accuracy = compare(value, expected, unfused[output], value.dtype.name)
        assert accuracy.passed, str(accuracy)


def test_number_of_experts_as_an_input_is_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(redfuser.RedFuserError, match="TopK"):
        redfuser.compile(corpus / "edge" / "topk_dynamic_k.onnx", output=tmp_path / "out")
    assert not (tmp_path / "out").exists()
