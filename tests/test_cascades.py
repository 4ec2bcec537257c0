"""A table of cascades, each from ONNX: the verdict of the algebra, and the compiled module against float64."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from onnx import parser

import redfuser
from models.cascades import GRAPHS, HEAD, cascade
from redfuser.accuracy import compare
from redfuser.oracle.run import run_float64, run_onnxruntime

RANK_1, FINITE, RESIDENT = "rank-1", "finite-rank", "resident"


@dataclass(frozen=True)
class Row:
    """What the report must say of a graph.

    Args:
        cascades: kind and form of each.
        obstacle: code of the reason why a cascade isn't incremental.
        numerics: of the compile.
        exactness: class of every cascade.
    """

    cascades: tuple[tuple[str, str], ...]
    obstacle: str = ""
    numerics: str = "exact"
    exactness: str = "exact"


def one(kind: str, form: str) -> Row:
    return Row(((kind, form),))


def resident(kind: str) -> Row:
    return Row(((kind, RESIDENT),), "not-finite-rank")


#: name of the graph, and of its numerics where they are relaxed
ROWS: dict[tuple[str, ...], Row] = {
    ("softmax",): one("softmax", RANK_1),
    ("softmax_gemm",): one("attention", RANK_1),
    ("softmin",): one("softmax", RANK_1),
    ("logsumexp",): one("logsumexp", RANK_1),
    ("log_softmax",): one("softmax", RANK_1),
    ("softmax_statistics",): one("logsumexp", RANK_1),
    ("cross_entropy",): one("logsumexp", FINITE),
    ("entropy",): one("logsumexp", FINITE),
    ("perplexity",): one("logsumexp", FINITE),
    ("kl_divergence",): one("logsumexp", FINITE),
    ("softmax_weighted_mean",): one("attention", RANK_1),
    ("softmax_weighted_variance",): one("attention", FINITE),
    ("temperature",): one("softmax", RANK_1),
    ("softcap",): one("attention", RANK_1),
    ("softmax1",): one("softmax", RANK_1),
    ("sink",): one("attention", RANK_1),
    ("sink_of_shifted_scores",): one("attention", RANK_1),
    ("variance",): one("moments", FINITE),
    ("standard_deviation",): one("moments", FINITE),
    ("skewness",): one("moments", FINITE),
    ("kurtosis",): one("moments", FINITE),
    ("layer_norm",): one("norm", FINITE),
    ("rms_norm",): one("norm", RANK_1),
    ("rms_norm_linear",): one("other", RANK_1),
    ("layer_norm_linear",): one("other", FINITE),
    ("batch_norm",): one("norm", FINITE),
    ("group_norm",): one("norm", FINITE),
    ("instance_norm",): one("norm", FINITE),
    ("covariance",): one("moments", FINITE),
    ("moment_of_inertia",): one("moments", FINITE),
    ("cosine_similarity",): one("moments", RANK_1),
    ("l2_normalise_gemm",): one("other", RANK_1),
    ("min_max_normalise",): one("other", RANK_1),
    ("min_max_normalise_gemm",): one("other", FINITE),
    ("absmax_scale_gemm",): one("other", RANK_1),
    ("quantise_gemm_int8",): resident("quant_gemm"),
    ("quantise_gemm_fp8",): resident("quant_gemm"),
    ("quantise_gemm_int8", "relaxed"): Row((("quant_gemm", RANK_1),), "", "relaxed", "reordered-rounding"),
    ("quantise_gemm_fp8", "relaxed"): Row((("quant_gemm", RANK_1),), "", "relaxed", "reordered-rounding"),
    # Integers are summed in int32, which no scale corrects.
    ("quantise_gemm_integer",): resident("quant_gemm"),
    ("quantise_gemm_integer", "relaxed"): Row((("quant_gemm", RESIDENT),), "not-finite-rank", "relaxed"),
    ("quantise_per_token",): one("quant", RANK_1),
    ("quantise_per_tensor",): one("quant", RANK_1),
    ("geometric_mean_normalise",): one("norm", RANK_1),
    ("geometric_mean_of_magnitudes",): one("norm", RANK_1),
    ("harmonic_mean_normalise",): one("norm", RANK_1),
    ("count_of_max",): one("other", RANK_1),
    ("two_cascades",): Row((("attention", RANK_1), ("moments", FINITE))),
    ("three_deep",): one("logsumexp", FINITE),
    ("mean_absolute_deviation",): resident("moments"),
    ("tanh_of_difference",): resident("other"),
    ("gaussian_of_difference",): resident("moments"),
    ("select_above_mean",): resident("moments"),
    # The product folds the axis too, but of every row of x: it stays behind the softmax, not the softmax unfused.
    ("gate_of_channels",): one("softmax", RANK_1),
    # Softmax over the slots, which the sums keep; then each slot's weights are divided by their sum.
    ("slot_attention",): Row((("softmax", RANK_1), ("other", RANK_1))),
    ("relative_shift",): one("attention", RANK_1),
    ("attention_of_normalised_queries",): Row((("norm", RANK_1), ("attention", RANK_1))),
    ("other_axis_between",): Row(()),
}


def save(name: str, folder: Path) -> Path:
    path = folder / f"{name}.onnx"
    path.write_bytes(cascade(name).SerializeToString())
    return path


def test_the_table_is_whole() -> None:
    assert set(GRAPHS) == {name for name, *_ in ROWS}


@pytest.mark.parametrize("key", ROWS, ids="-".join)
def test_verdict(key: tuple[str, ...], tmp_path: Path) -> None:
    row = ROWS[key]
    report = redfuser.analyze(save(key[0], tmp_path), numerics=row.numerics)
    found = [(entry.kind, entry.derivation.form if entry.derivation else "") for entry in report.cascades]
    assert tuple(found) == row.cascades
    obstacles = [e.derivation.obstacle.code for e in report.cascades if e.derivation and e.derivation.obstacle]
    assert obstacles == ([row.obstacle] if row.obstacle else [])
    for entry in report.cascades:
        assert entry.exactness == row.exactness
        if entry.derivation and entry.derivation.form != RESIDENT:
            assert {w.scenario for w in entry.derivation.witnesses} >= {"large mean", "large range", "ties", "zeros"}
            assert bool(entry.derivation.bounds) == (row.exactness != "exact")


@pytest.mark.slow
@pytest.mark.parametrize("key", ROWS, ids="-".join)
def test_compiled_module_agrees_with_float64(key: tuple[str, ...], tmp_path: Path) -> None:
    name, numerics = key[0], "relaxed" if len(key) > 1 else "exact"
    artifact = redfuser.compile(save(name, tmp_path), output=tmp_path / "out", numerics=numerics, fail_on_missed=True)
    generator = np.random.default_rng(3)
    feeds = {s.name: (3 * generator.standard_normal(s.shape)).astype(s.dtype) for s in artifact.manifest.inputs}
    exact, unfused = run_float64(cascade(name), feeds), run_onnxruntime(cascade(name), feeds, 1)
    for output, value in artifact.load()(feeds).items():
        accuracy = compare(value, exact[output], unfused[output], value.dtype.name)
        assert accuracy.passed, str(accuracy)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sink", "sink_of_shifted_scores"])
def test_rows_of_infinities_and_nan_among_sinks(name: str, tmp_path: Path) -> None:
    artifact = redfuser.compile(save(name, tmp_path), output=tmp_path / "out", fail_on_missed=True)
    generator = np.random.default_rng(3)
    feeds = {s.name: generator.standard_normal(s.shape).astype(s.dtype) for s in artifact.manifest.inputs}
    x, sink, _ = feeds.values()
    x[0, 3], x[1], x[2, 5] = np.inf, -np.inf, np.nan
    sink[3:, 0] = np.inf, -np.inf, np.nan
    ((output, value),) = artifact.load()(feeds).items()
    expected = run_float64(cascade(name), feeds)[output]
    assert np.isnan(expected).all(axis=-1).tolist() == [True, False, True, True, False, True]
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-40, 1e-38, 1e-30])
def test_small_rows_that_begin_with_zeros_are_rounded_by_their_own_scale(size: float, tmp_path: Path) -> None:
    name = "quantise_gemm_int8"
    artifact = redfuser.compile(save(name, tmp_path), output=tmp_path / "out", numerics="relaxed", strict=True)
    generator = np.random.default_rng(3)
    feeds = {s.name: generator.standard_normal(s.shape).astype(s.dtype) for s in artifact.manifest.inputs}
    x = next(iter(feeds))
    feeds[x] = (feeds[x] * size).astype(np.float32)
    feeds[x][..., : feeds[x].shape[-1] // 2] = 0
    expected = run_onnxruntime(cascade(name), feeds, 1)
    for output, value in artifact.load()(feeds).items():
        np.testing.assert_allclose(value, expected[output], rtol=0, atol=0.03 * np.abs(expected[output]).max())


@pytest.mark.parametrize(
    "nodes",
    [
        "(float[40] x) => (float[1] y) { i = NonZero(x)  j = Transpose(i)  v = GatherND(x, j)  y = ReduceMax(v) }",
        "(float[40] x, bool[40] c) => (float[n] y) { s = Compress(x, c)  y = Softmax<axis=0>(s) }",
    ],
)
def test_a_shape_that_depends_on_data_is_refused_by_name(nodes: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(parser.parse_model(f"{HEAD.format(opset=18)} g {nodes}").SerializeToString())
    with pytest.raises(redfuser.RedFuserError, match="whose shape depends on data"):
        redfuser.analyze(path)
