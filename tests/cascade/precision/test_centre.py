"""Means in double precision: where they are subtracted, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.cascades import cascade
from redfuser.algebra import derive
from redfuser.cascade.canonical import canonicalise
from redfuser.cascade.detect import detect
from redfuser.cascade.model import Cascade
from redfuser.cascade.precision.centre import sharpen_centres
from redfuser.cascade.reading.extract import extract_graph
from redfuser.frontend import load_model, lower
from redfuser.tile import Schedule, build, interpret
from tests.cascade.reference import evaluate_cascade


def detected(name: str, folder: Path) -> Cascade:
    path = folder / f"{name}.onnx"
    path.write_bytes(cascade(name).SerializeToString())
    lowered = lower(load_model(path))
    graph, _ = extract_graph(lowered.module, lowered.provenance)
    return canonicalise(detect(graph).cascades[0]).cascade


@pytest.mark.parametrize("name", ["variance", "layer_norm", "covariance", "kurtosis"])
def test_sums_that_elements_are_measured_from_are_doubled(name: str, tmp_path: Path) -> None:
    plain = detected(name, tmp_path)
    sharp = sharpen_centres(plain)
    sharp.verify()
    assert sharp.reductions[0].result.dtype == "float64"
    assert [o.tensor for o in sharp.outputs] == [o.tensor for o in plain.outputs]
    assert derive(sharp).form == derive(plain).form


@pytest.mark.parametrize("name", ["softmax", "rms_norm", "softmax_gemm"])
def test_other_results_keep_their_type(name: str, tmp_path: Path) -> None:
    plain = detected(name, tmp_path)
    assert sharpen_centres(plain) == plain


@pytest.mark.parametrize("mean", [0.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("strategy", ["resident", "single-segment", "multi-segment"])
def test_variance_is_right_whatever_the_mean(mean: float, strategy: str, tmp_path: Path) -> None:
    sharp = sharpen_centres(detected("variance", tmp_path))
    x = (np.random.default_rng(0).standard_normal((6, 40)) + mean).astype(np.float32)
    exact = evaluate_cascade(sharp, {"x0": x})["y0"]
    schedule = Schedule(strategy, (("l", 8),), 3 if strategy == "multi-segment" else 1)
    value = interpret(build(sharp, derive(sharp), schedule), {"x0": x})["y0"]
    np.testing.assert_allclose(value, exact, rtol=1e-5)
