"""A table of selections and expert routing, each from ONNX: the verdict, and the compiled module against float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import redfuser
from models.routing import GRAPHS, routing
from redfuser.accuracy import compare
from redfuser.oracle.run import run_float64, run_onnxruntime

#: name -> the form of each cascade, and the obstacle where there is one
EXPECTED: dict[str, tuple[tuple[str, ...], str]] = {
    **{name: (("rank-1",), "") for name in GRAPHS},
    "softmax_with_bias": (("resident",), "not-increasing"),
    "group_limited": (("rank-1", "rank-1"), ""),
}


def save(name: str, folder: Path) -> Path:
    path = folder / f"{name}.onnx"
    path.write_bytes(routing(name).SerializeToString())
    return path


@pytest.mark.parametrize("name", GRAPHS)
def test_verdict(name: str, tmp_path: Path) -> None:
    report = redfuser.analyze(save(name, tmp_path))
    forms, obstacle = EXPECTED[name]
    assert [entry.kind for entry in report.cascades] == ["routing"] * len(forms)
    derivations = [entry.derivation for entry in report.cascades if entry.derivation]
    assert tuple(derivation.form for derivation in derivations) == forms
    assert [d.obstacle.code for d in derivations if d.obstacle] == ([obstacle] if obstacle else [])


def feeds(artifact: Any, tied: bool) -> dict[str, np.ndarray]:
    """Inputs; of ``tied`` ones many are equal, also to the k-th best."""
    random = np.random.default_rng(5)
    normal = {spec.name: random.standard_normal(spec.shape) for spec in artifact.manifest.inputs}
    return {
        s.name: (np.round(normal[s.name]) if tied else normal[s.name]).astype(s.dtype) for s in artifact.manifest.inputs
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", GRAPHS)
def test_compiled_module_agrees_with_float64(name: str, tmp_path: Path) -> None:
    artifact = redfuser.compile(save(name, tmp_path), output=tmp_path / "out", fail_on_missed=True)
    model = artifact.load()
    for tied in (False, True):
        inputs = feeds(artifact, tied)
        exact, unfused = run_float64(routing(name), inputs), run_onnxruntime(routing(name), inputs, 1)
        for output, value in model(inputs).items():
            accuracy = compare(value, exact[output], unfused[output], value.dtype.name)
            assert accuracy.passed, f"{output}: {accuracy}"
