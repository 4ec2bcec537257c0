"""An artifact held against ONNX Runtime and float64: what counts as the error of the unfused graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import redfuser
from redfuser.artifact.load import LoadedModel
from redfuser.bench.sides import onnx_runtime
from redfuser.errors import VerificationError
from redfuser.frontend import load_model
from redfuser.oracle import run, survival
from redfuser.progress import Silent
from redfuser.verification import OutputAccuracy, compare_with_oracle
from tests.frontend.running import graph_of

X = np.random.default_rng(0).standard_normal((24, 64)).astype(np.float16)


@pytest.fixture
def weighed(tmp_path: Path) -> Path:
    """Probabilities in half precision weigh what is summed in float32: ONNX Runtime doesn't round them."""
    nodes = [
        helper.make_node("Softmax", ["x"], ["p"]),
        helper.make_node("Mul", ["x", "p"], ["weighed"]),
        helper.make_node("Cast", ["weighed"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["wide"], ["y"], keepdims=0),
    ]
    nodes[-1].input.append("axes")
    path = tmp_path / "model.onnx"
    path.write_bytes(graph_of(nodes, {"x": X, "axes": np.array([-1])}, ["y"]).SerializeToString())
    return path


def verified(model: Path) -> OutputAccuracy:
    artifact = redfuser.compile(model, output=model.parent / "out", values={"axes": [-1]}, force=True)
    (output,) = compare_with_oracle(artifact.path, model, [({}, {"x": X})], 1, Silent())
    return output


def test_roundings_of_the_graph_count_though_onnx_runtime_leaves_them_out(weighed: Path) -> None:
    accuracy = verified(weighed).accuracy
    assert accuracy.passed, str(accuracy)
    assert accuracy.baseline_rmse is not None and accuracy.baseline_rmse > 1e-5


def test_an_error_above_these_roundings_fails(weighed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = LoadedModel.__call__
    monkeypatch.setattr(
        LoadedModel, "__call__", lambda self, feeds: {n: v + 2e-3 for n, v in call(self, feeds).items()}
    )
    accuracy = verified(weighed).accuracy
    assert not accuracy.passed and accuracy.reason == "the error exceeds what the rule allows"


def test_a_model_that_onnx_runtime_dies_of_is_held_against_float64_alone(
    weighed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survival, "_LOAD", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    monkeypatch.setattr(run, "run_onnxruntime", lambda *_: pytest.fail("ONNX Runtime was asked"))
    accuracy = verified(weighed).accuracy
    assert accuracy.passed, str(accuracy)
    with pytest.raises(VerificationError, match="cannot load this model: it dies of SIGSEGV"):
        run.require_loadable(load_model(weighed).proto)
    with pytest.raises(RuntimeError, match="it dies of SIGSEGV when it loads the model"):
        onnx_runtime(load_model(weighed).proto, {}, 1)


def test_a_model_that_onnx_runtime_refuses_is_no_death(weighed: Path) -> None:
    assert survival.death_at_loading(weighed.read_bytes()) == ""
    assert survival.death_at_loading(b"no model") == ""
