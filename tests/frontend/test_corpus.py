"""Models that exporters wrote and others published: all lower, and (slow) run as ONNX Runtime and float64 say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from redfuser.accuracy import Accuracy, compare
from redfuser.errors import UnsupportedOperatorError, UsageError
from redfuser.frontend import LoweredModel, OnnxModel, load_model, lower
from redfuser.frontend.fixing import fix_inputs
from redfuser.oracle.run import run_float64, run_onnxruntime
from redfuser.signature import ANY_SIZE, DimRange
from tests.frontend.running import run

EXPORTED = [
    "bert__dyn18",
    "bert__eager18",
    "bert__sdpa18",
    "bert__ts14",
    "bloom__eager18",
    "clip__eager18",
    "convnext__eager18",
    "distilbert__sdpa18",
    "gpt2__eager18",
    "gpt2__sdpa18",
    "llama__dyn18",
    "llama__eager18",
    "llama__sdpa18",
    "minilm_realweights__dyn18",
    "opt__eager18",
    "t5__eager18",
    "t5__sdpa18",
    "vit__eager18",
]
FURTHER = [
    "bert__sdpa23",
    "clip__sdpa23",
    "deepseek_v3__eager18",
    "deepseek_v3__sdpa23",
    "falcon_alibi__sdpa18",
    "llama__sdpa23",
    "llama__ts14",
    "mixtral__eager18",
    "mixtral__sdpa23",
    "qwen2_moe__eager18",
    "qwen2_moe__sdpa23",
    "vit__sdpa23",
]
REAL = {
    "rapidocr_onnxruntime__ch_PP-OCRv4_det_infer": (1, 3, 64, 64),
    "rapidocr_onnxruntime__ch_PP-OCRv4_rec_infer": (1, 3, 48, 320),
}

#: Graphs whose own float32 arithmetic is wrong, or whose long sums an unscheduled loop rounds too often.
UNFUSED_IS_WRONG = frozenset(["attn_long", "layernorm_op_mean1e6", "log_of_softmax_underflow", "variance_ex2_mean1e6"])


def with_inputs(path: Path) -> tuple[OnnxModel, dict[str, np.ndarray]]:
    """A model of the corpus and the arrays that lie beside it."""
    arrays = np.load(path.with_suffix(".npz"))
    feeds = {name.removeprefix("i_"): arrays[name] for name in arrays.files if not name.startswith("o_")}
    return load_model(path), feeds


def lowered(model: OnnxModel, feeds: dict[str, np.ndarray]) -> LoweredModel:
    return lower(model, shapes={name: array.shape for name, array in feeds.items()})


def accuracies(model: OnnxModel, feeds: dict[str, np.ndarray], baseline: bool = True) -> Iterator[Accuracy]:
    """How every output of the unscheduled module compares."""
    result = lowered(model, feeds)
    exact = run_float64(model.proto, feeds)
    unfused = run_onnxruntime(model.proto, feeds, 1) if baseline else {}
    for spec, got in zip(result.outputs, run(result, feeds), strict=True):
        yield compare(got, exact[spec.name], unfused.get(spec.name), spec.dtype)


@pytest.mark.parametrize("name", EXPORTED + FURTHER)
def test_exported_models_lower(corpus: Path, name: str) -> None:
    result = lowered(*with_inputs(corpus / "exported" / f"{name}.onnx"))
    result.verify()
    operators = set(result.operators.values())
    assert not operators & {"Shape", "Constant", "Identity", "If"}
    called = {node for nodes in result.provenance.values() for node in nodes}
    assert called <= set(result.operators)


def test_every_attention_of_a_whole_model_is_there(corpus: Path) -> None:
    model, _ = with_inputs(corpus / "exported" / "minilm_realweights__dyn18.onnx")
    result = lower(model, {"batch": 1, "seq": 128})
    softmaxes = [name for name, operator in result.operators.items() if operator == "Softmax"]
    assert len(softmaxes) == 6
    assert set(softmaxes) <= {node for nodes in result.provenance.values() for node in nodes}


def test_dynamic_models_stay_dynamic_as_far_as_their_tables_reach(corpus: Path) -> None:
    model = load_model(corpus / "exported" / "minilm_realweights__dyn18.onnx")
    result = lower(model)
    assert result.outputs[0].shape == ("batch", "seq", 384)
    assert result.dims == {"batch": ANY_SIZE, "seq": DimRange(1, 512)}, "as many as there are position embeddings"
    with pytest.raises(UsageError, match="the model takes sizes of 1:512 alone"):
        lower(model, {"seq": DimRange(1, 513)})


@pytest.mark.parametrize("name", REAL)
def test_published_models_lower(corpus: Path, name: str) -> None:
    result = lower(load_model(corpus / "real" / f"{name}.onnx"), shapes={"x": REAL[name]})
    result.verify()


def test_a_published_voice_detector_computes(corpus: Path) -> None:
    """Convolutions and an LSTM of one step, behind a choice by the sampling rate."""
    model = load_model(corpus / "real" / "silero_vad__silero_vad_op18_ifless.onnx")
    rng = np.random.default_rng(0)
    feeds = {
        "input": rng.standard_normal((2, 576)).astype(np.float32),
        "state": rng.standard_normal((2, 2, 128)).astype(np.float32),
    }
    for accuracy in accuracies(replace(model, proto=fix_inputs(model.proto, {"sr": [16000]})), feeds):
        assert accuracy.passed, accuracy


def test_a_published_quantised_lstm_computes(corpus: Path) -> None:
    """Letters are given the marks that ONNX Runtime gives them; it rounds hidden states to bytes, we don't."""
    model = load_model(corpus / "real" / "text2tashkeel__bilstm.int8.onnx")
    feeds = {"input_ids": np.random.default_rng(0).integers(1, 20, (1, 12))}
    (got,), (peer,) = run(lowered(model, feeds), feeds), run_onnxruntime(model.proto, feeds, 1).values()
    np.testing.assert_array_equal(got.argmax(-1), peer.argmax(-1))
    assert np.abs(got - peer).max() < 0.05 * np.abs(peer).max()


@pytest.mark.parametrize(
    ("name", "operator"),
    [("silero_vad__silero_vad_op18_ifless", "If")],
)
def test_published_models_with_unsupported_operators_are_refused(corpus: Path, name: str, operator: str) -> None:
    model = load_model(corpus / "real" / f"{name}.onnx")
    inputs = model.proto.graph.input
    symbols = {dim.dim_param for value in inputs for dim in value.type.tensor_type.shape.dim if dim.dim_param}
    with pytest.raises(UnsupportedOperatorError, match=operator):
        lower(model, dict.fromkeys(symbols, 8))


def edge_cases(corpus: Path) -> list[Path]:
    return [p for p in sorted((corpus / "edge").glob("*.onnx")) if p.stem not in UNFUSED_IS_WRONG | {"topk_dynamic_k"}]


def test_edge_cases(corpus: Path) -> None:
    for path in edge_cases(corpus):
        model, feeds = with_inputs(path)
        for result in accuracies(model, feeds):
            assert result.passed, f"{path.stem}: {result}"


def test_infinities_and_nan_stand_where_the_answer_has_them(corpus: Path) -> None:
    for pattern in ("attn_*", "softmax_*", "mask_*"):
        for path in sorted((corpus / "edge").glob(pattern + ".onnx")):
            arrays = np.load(path.with_suffix(".npz"))
            model, feeds = with_inputs(path)
            result = lowered(model, feeds)
            for spec, got in zip(result.outputs, run(result, feeds), strict=True):
                expected = arrays[f"o_{spec.name}"]
                assert np.array_equal(np.isnan(got), np.isnan(expected)), path.stem
                assert np.array_equal(np.isinf(got), np.isinf(expected)), path.stem


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTED + FURTHER)
def test_exported_models_run(corpus: Path, name: str) -> None:
    model, feeds = with_inputs(corpus / "exported" / f"{name}.onnx")
    has_baseline = name != "falcon_alibi__sdpa18"  # ONNX Runtime has no kernel for one of its products
    for result in accuracies(model, feeds, has_baseline):
        assert result.passed, str(result)


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_published_models_run(corpus: Path, name: str) -> None:
    model = load_model(corpus / "real" / f"{name}.onnx")
    feeds = {"x": np.random.default_rng(0).standard_normal(REAL[name]).astype(np.float32)}
    for result in accuracies(model, feeds):
        # An unscheduled loop adds thousands of products one by one; the rule is for scheduled kernels.
        assert result.passed or result.max_abs < 1e-4, str(result)
