"""Spellings of published models that no exported model here has: fused all the same, and right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import redfuser
from models.cascades import parsed
from models.spellings import GRAPHS, spelling
from redfuser.accuracy import compare
from redfuser.oracle.run import run_float64, run_onnxruntime

#: Kinds other than attention.
KINDS = {"group_maxima": "softmax"}


def save(name: str, folder: Path) -> Path:
    path = folder / f"{name}.onnx"
    path.write_bytes(spelling(name).SerializeToString())
    return path


@pytest.mark.parametrize("name", GRAPHS)
def test_one_cascade_in_one_pass(name: str, tmp_path: Path) -> None:
    entries = redfuser.analyze(save(name, tmp_path)).cascades
    found = [(entry.kind, entry.derivation.form if entry.derivation else "") for entry in entries]
    assert found == [(KINDS.get(name, "attention"), "rank-1")]


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_compiled_module_agrees_with_float64(name: str, tmp_path: Path) -> None:
    artifact = redfuser.compile(save(name, tmp_path), output=tmp_path / "out", fail_on_missed=True)
    generator = np.random.default_rng(3)
    feeds = {
        s.name: generator.random(s.shape) < 0.6
        if s.dtype == "bool"
        else (3 * generator.standard_normal(s.shape)).astype(s.dtype)
        for s in artifact.manifest.inputs
    }
    exact, unfused = run_float64(spelling(name), feeds), run_onnxruntime(spelling(name), feeds, 1)
    for output, value in artifact.load()(feeds).items():
        accuracy = compare(value, exact[output], unfused[output], value.dtype.name)
        assert accuracy.passed, str(accuracy)


def test_a_selection_and_one_sum_above_it_stay_unfused(tmp_path: Path) -> None:
    path = tmp_path / "sum.onnx"
    graph = parsed("""g (float[6,16] x) => (float[6] y)
        <int64[1] three = {3}, int64[1] two = {2}, int64[1] last = {-1}> {
        best, places = TopK<axis=-1>(x, three)  worst = Slice(best, two, three, last)  above = Sub(x, worst)
        above0 = Relu(above)  y = ReduceSum<keepdims=0>(above0, last) }""")
    path.write_bytes(graph.SerializeToString())
    report = redfuser.analyze(path)
    assert report.fused == 0
    assert [entry.reason.code for entry in report.cascades if entry.reason] == ["misaligned"]
    assert "one place of the list that is selected is read" in str(report.cascades[0].reason)
