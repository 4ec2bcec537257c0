"""The measuring process: real kernels are timed; deaths, silences and nonsense cost one job."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from redfuser.algebra import derive
from redfuser.expr import axis
from redfuser.targets import CpuTarget, load_target
from redfuser.tile import build, default_schedule
from redfuser.tuning.timing.job import Failure, Job, Plan, Timing
from redfuser.tuning.timing.runner import LocalRunner
from tests.tile.build import Rows

QUICK = Plan(3, 0.1)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """A softmax of a few rows."""
    from redfuser.tuning.timing.builder import Builder

    cascade = Rows(axis("i", 8), axis("l", 64)).softmax()
    derivation = derive(cascade)
    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    program = build(cascade, derivation, default_schedule(cascade, derivation, target).schedule)
    built = Builder(target, tmp_path_factory.mktemp("built")).build(program)
    assert isinstance(built, Job)
    return built


@pytest.fixture
def runner() -> Iterator[LocalRunner]:
    """One of two threads that waits a while."""
    made = LocalRunner(2, patience=30)
    yield made
    made.close()


def fatal(folder: Path, body: str) -> Job:
    """A library that does something terrible when it is loaded."""
    source, library = folder / "fatal.c", folder / "fatal.so"
    source.write_text(f"#include <stdlib.h>\n#include <unistd.h>\n__attribute__((constructor)) void f() {{ {body} }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return Job(str(library), "f", (), 0)


def test_kernels_take_turns(job: Job, runner: LocalRunner) -> None:
    for result in runner.run([job, job], QUICK):
        assert isinstance(result, Timing) and len(result.seconds) == 3
        assert 0 < result.median_us < 1e6 and result.noise >= 0


def test_a_death_costs_one_job(job: Job, runner: LocalRunner, tmp_path: Path) -> None:
    before, dead, after = runner.run([job, fatal(tmp_path, "abort();"), job], QUICK)
    assert isinstance(before, Timing) and isinstance(after, Timing)
    assert isinstance(dead, Failure) and "signal 6" in dead.text


def test_a_silence_costs_one_job(job: Job, tmp_path: Path) -> None:
    impatient = LocalRunner(1, patience=3)
    try:
        silent, other = impatient.run([fatal(tmp_path, "sleep(1000);"), job], QUICK)
        assert isinstance(silent, Failure) and "3 s" in silent.text and isinstance(other, Timing)
    finally:
        impatient.close()


def test_what_cannot_be_loaded_says_why(job: Job, runner: LocalRunner) -> None:
    absent, known = runner.run([Job("/absent.so", "f", (), 0), job], QUICK)
    assert isinstance(absent, Failure) and "absent.so" in absent.text and isinstance(known, Timing)


def test_a_runner_starts_again_after_its_process_went_away(job: Job, runner: LocalRunner) -> None:
    runner.run([job], QUICK)
    assert runner._process is not None
    runner._process.kill()
    runner._process.wait()
    (result,) = runner.run([job], QUICK)
    assert isinstance(result, Timing)


def test_noise_is_half_the_middle_range() -> None:
    assert Timing((1.0, 1.0, 1.0, 1.0, 9.0)).noise == 0
    assert Timing((0.8, 0.9, 1.0, 1.1, 1.2)).noise == pytest.approx(0.1)
