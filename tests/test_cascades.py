"""A table of cascades, each from ONNX: the verdict of the algebra, and the compiled module against float64."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import redfuser
from models.cascades import GRAPHS, cascade
from redfuser.accuracy import compare
from redfuser.oracle import run_float64, run_onnxruntime


@dataclass(frozen=True)
class Expected:
    """What the report must say: kind and form of each cascade, and the obstacle where there is one."""

    cascades: tuple[tuple[str, str], ...]
    obstacle: str = ""


def one(kind: str, form: str, obstacle: str = "") -> Expected:
    return Expected(((kind, form),), obstacle)


EXPECTED: dict[str, Expected] = {
    "softmax": one("softmax", "rank-1"),
    "softmax_gemm": one("attention", "rank-1"),
    "softmin": one("softmax", "rank-1"),
    "logsumexp": one("logsumexp", "rank-1"),
    "log_softmax": one("softmax", "rank-1"),
    "softmax_statistics": one("logsumexp", "rank-1"),
    "cross_entropy": one("logsumexp", "finite-rank"),
    "entropy": one("logsumexp", "finite-rank"),
    "perplexity": one("logsumexp", "finite-rank"),
    "kl_divergence": one("logsumexp", "finite-rank"),
    "softmax_weighted_mean": one("logsumexp", "rank-1"),
    "softmax_weighted_variance": one("logsumexp", "finite-rank"),
    "temperature": one("softmax", "rank-1"),
    "softcap": one("attention", "rank-1"),
    "softmax1": one("softmax", "rank-1"),
    "sink": one("softmax", "rank-1"),
    "variance": one("moments", "finite-rank"),
    "standard_deviation": one("moments", "finite-rank"),
    "skewness": one("moments", "finite-rank"),
    "kurtosis": one("moments", "finite-rank"),
    "layer_norm": one("norm", "finite-rank"),
    "rms_norm": one("norm", "rank-1"),
    "rms_norm_linear": one("other", "rank-1"),
    "layer_norm_linear": one("other", "finite-rank"),
    "group_norm": one("norm", "finite-rank"),
    "covariance": one("moments", "finite-rank"),
    "moment_of_inertia": one("moments", "finite-rank"),
    "cosine_similarity": one("moments", "rank-1"),
    "l2_normalise_gemm": one("other", "rank-1"),
    "min_max_normalise": one("other", "rank-1"),
    "absmax_scale_gemm": one("other", "rank-1"),
    "quantise_gemm_int8": one("quant_gemm", "resident", "not-finite-rank"),
    "geometric_mean_normalise": Expected(()),
    "harmonic_mean_normalise": one("norm", "rank-1"),
    "count_of_max": one("other", "rank-1"),
    "two_cascades": Expected((("attention", "rank-1"), ("moments", "finite-rank"))),
    "three_deep": one("logsumexp", "finite-rank"),
    "mean_absolute_deviation": one("moments", "resident", "not-finite-rank"),
    "tanh_of_difference": one("other", "resident", "not-finite-rank"),
    "gaussian_of_difference": one("moments", "resident", "not-finite-rank"),
    "select_above_mean": one("moments", "resident", "not-finite-rank"),
    "other_axis_between": Expected(()),
}


def save(name: str, folder: Path) -> Path:
    path = folder / f"{name}.onnx"
    path.write_bytes(cascade(name).SerializeToString())
    return path


def test_the_table_is_whole() -> None:
    assert set(GRAPHS) - set(EXPECTED) == {"instance_norm"}, "instance_norm depends on how it is imported"


@pytest.mark.parametrize("name", EXPECTED)
def test_verdict(name: str, tmp_path: Path) -> None:
    report = redfuser.analyze(save(name, tmp_path))
    found = [(entry.kind, entry.derivation.form if entry.derivation else "") for entry in report.cascades]
    assert tuple(found) == EXPECTED[name].cascades
    obstacles = [e.derivation.obstacle.code for e in report.cascades if e.derivation and e.derivation.obstacle]
    assert obstacles == ([EXPECTED[name].obstacle] if EXPECTED[name].obstacle else [])
    assert all(e.derivation.proofs for e in report.cascades if e.derivation and e.derivation.form != "resident")


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_compiled_module_agrees_with_float64(name: str, tmp_path: Path) -> None:
    artifact = redfuser.compile(save(name, tmp_path), output=tmp_path / "out", fail_on_missed=True)
    generator = np.random.default_rng(3)
    feeds = {s.name: generator.standard_normal(s.shape).astype(s.dtype) for s in artifact.manifest.inputs}
    exact, unfused = run_float64(cascade(name), feeds), run_onnxruntime(cascade(name), feeds, 1)
    for output, value in artifact.load()(feeds).items():
        accuracy = compare(value, exact[output], unfused[output], value.dtype.name)
        assert accuracy.passed, str(accuracy)
