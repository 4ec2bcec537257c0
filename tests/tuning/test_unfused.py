"""A kernel against the unfused graph: what is timed, and what is made of the times."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.reductions import softmax
from redfuser.codegen.cpu.backend import CpuBackend
from redfuser.driver import analyze
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.stages.fusion import plan
from redfuser.targets import CpuTarget, load_target
from redfuser.tile import build
from redfuser.tuning.timing.builder import Builder
from redfuser.tuning.timing.runner import LocalRunner
from redfuser.tuning.unfused import gain, ratio_of_turns


def measured(folder: Path, notes: list[str]) -> float:
    """The gain of softmax's untuned kernel."""
    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    options = CompileOptions(target)
    path = folder / "softmax.onnx"
    path.write_bytes(softmax(8, 64).SerializeToString())
    analysis = analyze(path, options, Silent())
    ((cascade, name),) = analysis.distinct().items()
    outcome = plan(cascade, name, options)
    assert outcome.precise is not None and outcome.derivation is not None and outcome.schedule is not None
    program = build(outcome.precise, outcome.derivation, outcome.schedule, name)
    runner = LocalRunner(target.cores)
    try:
        return gain(analysis.part(name), program, options, Builder(target, folder), runner, notes.append)
    finally:
        runner.close()


def test_both_are_timed_as_modules(tmp_path: Path) -> None:
    notes: list[str] = []
    assert measured(tmp_path, notes) > 0 and not notes


def test_a_graph_that_cannot_be_compiled_unfused_is_no_reason_against_fusing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no code for it")

    notes: list[str] = []
    monkeypatch.setattr(CpuBackend, "assemble", fail)
    assert measured(tmp_path, notes) == 0.0 and "no code for it" in notes[0]


def test_turns_are_compared_one_by_one() -> None:
    assert ratio_of_turns([1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0]) == 2.0
    assert ratio_of_turns([1.0, 1.0, 1.0, 1.0], [0.8, 0.9, 1.1, 1.2]) == 1.0
