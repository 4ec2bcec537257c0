"""Whole models and workloads for GPUs, computed: a few of what ``sweep.py`` goes through for all of them.

Each kernel in its full size on ordinary, large and masked inputs, then the model from end to end with the remainder's
kernels, each under two schedules.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from redfuser.driver import analyze
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from tests.codegen.gpu.programs import gpu
from tests.codegen.gpu.whole.recording import Recorder
from tests.codegen.gpu.whole.sweep import CORPUS, Subject, examine, exported, workload_case
from tests.emulator.library import needs_compiler

pytestmark = [pytest.mark.slow, needs_compiler, pytest.mark.usefixtures("toolchain")]


def check(subject: Subject, target: str, folder: Path, recorder: Recorder) -> None:
    options = CompileOptions(target=gpu(target), shapes=subject.shapes)
    analysis = analyze(subject.path, options, Silent())
    finding = examine(subject, analysis, gpu(target), folder, recorder, emulate=True)
    assert not finding.problems, "\n".join(finding.problems)
    assert all(entry.verdict == "fused" for entry in finding.cascades) and finding.kernels


@pytest.mark.parametrize(
    ("model", "target", "length"),
    [
        ("llama__fp16", "h800", None),  # rows that see nothing
        ("deepseek_v3__fp16", "h800", None),  # latent attention, routing, products with vectors
        ("llama__dyn18", "a10", 70),  # tails, and tiles that see nothing
    ],
)
def test_model(model: str, target: str, length: int | None, recorder: Recorder, tmp_path: Path) -> None:
    if not CORPUS.exists():
        pytest.skip("exported models aren't there")
    check(exported(model, tmp_path, length), target, tmp_path, recorder)


@pytest.mark.parametrize(
    ("workload", "case", "target"),
    [("moments", "variance", "a10"), ("moe", "deepseek-v2-lite", "h800"), ("mha", "decode-4096", "a100-80g")],
)
def test_workload(workload: str, case: str, target: str, recorder: Recorder, tmp_path: Path) -> None:
    check(workload_case(workload, case, tmp_path), target, tmp_path, recorder)
