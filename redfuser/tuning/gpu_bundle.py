"""Tuning for a GPU that is elsewhere: candidates as machine code, in a bundle that checks and times itself there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from redfuser.artifact.bundle import BundledKernel, write_bundle
from redfuser.cascade.identity import cascade_digest
from redfuser.cascade.kinds import classify
from redfuser.errors import UsageError
from redfuser.expr.binding import dims_in
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.records import RecordError, decode, digest, encode, parse, to_text
from redfuser.targets import GpuTarget, Target
from redfuser.tile.traffic import traffic
from redfuser.tuning.bundle import RESULTS, empty_folder, fastest
from redfuser.tuning.choose import Chooser, untuned
from redfuser.tuning.foreseen import foresight
from redfuser.tuning.record import Record, ScheduleRecord, SpaceRecord
from redfuser.tuning.task import Task
from redfuser.tuning.timing.job import Timing

SCHEMA: Literal["redfuser.gpu-tuning/1"] = "redfuser.gpu-tuning/1"
TUNING, DESCRIBED = "tuning.json", "bundle.json"
#: Candidates of one cascade, at most: each is compiled here.
CANDIDATES = 8
#: The side that is ours among the times of a bundle.
OURS = "redfuser"


@dataclass(frozen=True)
class GpuCandidate:
    """A schedule, and the name of its program in the bundle."""

    schedule: ScheduleRecord
    program: str


@dataclass(frozen=True)
class GpuTask:
    """One cascade's candidates, the most promising first."""

    name: str
    cascade: str
    space: SpaceRecord
    candidates: tuple[GpuCandidate, ...]


@dataclass(frozen=True)
class GpuTuning:
    """What ``tuning.json`` says, beside a bundle of :mod:`redfuser.artifact.bundle`."""

    schema: Literal["redfuser.gpu-tuning/1"]
    target_digest: str
    tasks: tuple[GpuTask, ...]


@contextmanager
def exporting(options: CompileOptions, progress: Progress, folder: Path) -> Iterator[Chooser]:
    """Puts each cascade's most promising candidates that compile into a bundle; answers with the usual choice.

    Raises:
        OutputError: the folder can't be used.
    """
    assert isinstance(options.target, GpuTarget)
    empty_folder(folder)
    kernels: list[BundledKernel] = []
    tasks: list[GpuTask] = []
    with foresight(options, progress) as found:

        def choose(task: Task) -> Record:
            if dims_in(task.cascade):  # Sizes that are known on the call only give no time to measure.
                return untuned(task, options)
            sifted = found.sift(task, CANDIDATES)
            moved = traffic(task.cascade)
            candidates = []
            for number, each in enumerate(sifted.passed):
                code = replace(each.kernel.code, name=f"{task.name}_{number}")
                size = moved.read_bytes + moved.write_bytes
                tf32 = options.fp32 == "tf32"
                kernels.append(BundledKernel(classify(task.cascade), size, each.candidate.program, code, tf32))
                candidates.append(GpuCandidate(ScheduleRecord.of(each.candidate.schedule), code.name))
            space = SpaceRecord.of(sifted.survey)
            tasks.append(GpuTask(task.name, cascade_digest(task.cascade), space, tuple(candidates)))
            return untuned(task, options)

        yield choose
    progress.stage("write the bundle")
    write_bundle(folder, "candidates", options.target, tuple(kernels), options.seed)
    tuning = GpuTuning(SCHEMA, digest(options.target), tuple(tasks))
    (folder / TUNING).write_text(to_text(encode(tuning)), encoding="utf-8")


def read_results(folder: Path, target: Target) -> dict[str, Record]:
    """Record by digest of the cascade, from a bundle that ran; candidates with wrong results are left out.

    Raises:
        UsageError: the folder holds no bundle or no results, or they belong to something else.
    """
    hint = f"run python run.py --json {RESULTS} in the bundle on the machine to tune for"
    try:
        tuning = decode(GpuTuning, parse((folder / TUNING).read_text(encoding="utf-8")))
        bundle, results = (json.loads((folder / n).read_text(encoding="utf-8")) for n in (DESCRIBED, RESULTS))
        same = results["bundle"] == bundle["digest"]
        timed = {name: _timing(cases) for name, cases in results["programs"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecordError) as error:
        raise UsageError(f"cannot read the bundle {str(folder)!r}: {error}", hint) from error
    if not same:
        raise UsageError(f"{str(folder / RESULTS)!r} belongs to another bundle", hint)
    if tuning.target_digest != digest(target):
        raise UsageError(f"the bundle {str(folder)!r} was made for another target", "give the same --target")
    chosen = [
        fastest(task.cascade, task.space, [(c.schedule, t) for c in task.candidates if (t := timed.get(c.program))])
        for task in tuning.tasks
    ]
    return {record.cascade: record for record in chosen if record is not None}


def _timing(cases: Sequence[Mapping[str, Any]]) -> Timing | None:
    """Times of a program whose results are right."""
    taken = [float(ms) / 1e3 for case in cases for ms in case["times_ms"].get(OURS, ())]
    return Timing(tuple(taken)) if taken and not any(case["problems"] for case in cases) else None
