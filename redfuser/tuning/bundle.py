"""Tuning where redfuser isn't: a folder with compiled candidates to be timed elsewhere, and what comes back.

The folder holds ``bundle.json``, the libraries, and ``measure.py``, which needs apache-tvm and NumPy alone and writes
``results.json``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from redfuser.errors import OutputError, UsageError
from redfuser.records import RecordError, decode, digest, encode, parse, to_text
from redfuser.targets import Target
from redfuser.tile.ir import TileProgram
from redfuser.tuning.finals import CLOSE
from redfuser.tuning.record import Record, ScheduleRecord, SpaceRecord
from redfuser.tuning.spaces.space import Candidate
from redfuser.tuning.timing import measure
from redfuser.tuning.timing.job import Failure, Job, Plan, Timing

Build = Callable[[TileProgram], Job | Failure]

SCHEMA: Literal["redfuser.bundle/1"] = "redfuser.bundle/1"
BUNDLE, RESULTS, SCRIPT = "bundle.json", "results.json", "measure.py"
PLAN = Plan(9, 10.0)


@dataclass(frozen=True)
class BundledCandidate:
    """A schedule and its library, named relative to the folder."""

    schedule: ScheduleRecord
    job: Job


@dataclass(frozen=True)
class BundledTask:
    """One cascade's candidates, the most promising first."""

    name: str
    cascade: str
    space: SpaceRecord
    candidates: tuple[BundledCandidate, ...]


@dataclass(frozen=True)
class Bundle:
    """What ``bundle.json`` says.

    Args:
        schema: format version.
        target_digest: of the target that the libraries are for.
        digest: of the tasks; results must name it.
        plan: how to time.
        tasks: one a distinct cascade.
    """

    schema: Literal["redfuser.bundle/1"]
    target_digest: str
    digest: str
    plan: Plan
    tasks: tuple[BundledTask, ...]


@dataclass(frozen=True)
class Answer:
    """What came back of one candidate."""

    job: int = 0
    seconds: tuple[float, ...] = ()
    failure: str = ""


@dataclass(frozen=True)
class Results:
    """What ``results.json`` says: answers by task, in the order of its candidates."""

    schema: Literal["redfuser.bundle/1"]
    bundle: str
    results: Mapping[str, tuple[Answer, ...]]


class Exporter:
    """Collects the candidates of each cascade into a folder.

    Args:
        folder: created; it must be empty or absent.
        target: what the libraries are for.
        seed: of the arrays they will be timed on.

    Raises:
        OutputError: the folder isn't empty, or can't be made.
    """

    def __init__(self, folder: Path, target: Target, seed: int) -> None:
        self.folder, self.target, self.plan = folder, target, replace(PLAN, seed=seed)
        self.tasks: list[BundledTask] = []
        empty_folder(folder)

    def add(
        self,
        name: str,
        cascade: str,
        space: SpaceRecord,
        ranked: Sequence[Candidate],
        build: Callable[..., Job | Failure],
    ) -> None:
        """Build candidates into the folder; those that can't be built are left out."""
        built: list[BundledCandidate] = []
        for candidate in ranked:
            job = build(candidate.program)
            if isinstance(job, Job):
                place = f"{len(self.tasks)}-{len(built)}.so"
                shutil.move(job.library, self.folder / place)
                built.append(BundledCandidate(ScheduleRecord.of(candidate.schedule), replace(job, library=place)))
        self.tasks.append(BundledTask(name, cascade, space, tuple(built)))

    def write(self) -> Bundle:
        """Write what describes the libraries, and the script that times them."""
        tasks = tuple(self.tasks)
        bundle = Bundle(SCHEMA, digest(self.target), digest(tasks), self.plan, tasks)
        (self.folder / BUNDLE).write_text(to_text(encode(bundle)), encoding="utf-8")
        shutil.copyfile(Path(measure.__file__), self.folder / SCRIPT)
        return bundle


def empty_folder(folder: Path) -> None:
    """Make a folder that must not hold anything yet.

    Raises:
        OutputError: it does, or can't be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        occupied = any(folder.iterdir())
    except OSError as error:
        raise OutputError(f"cannot write {str(folder)!r}: {error.strerror}", "choose another folder") from error
    if occupied:
        raise OutputError(f"the folder {str(folder)!r} isn't empty", "choose another folder")


def read_results(folder: Path, target: Target) -> dict[str, Record]:
    """Record by digest of the cascade, from a bundle that was measured.

    Raises:
        UsageError: the folder holds no bundle or no results, or they belong to something else.
    """
    hint = f"run {SCRIPT} in the bundle on the machine to tune for"
    try:
        bundle = decode(Bundle, parse((folder / BUNDLE).read_text(encoding="utf-8")))
        results = decode(Results, parse((folder / RESULTS).read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, RecordError) as error:
        raise UsageError(f"cannot read the bundle {str(folder)!r}: {error}", hint) from error
    if results.bundle != bundle.digest:
        raise UsageError(f"{str(folder / RESULTS)!r} belongs to another bundle", hint)
    if bundle.target_digest != digest(target):
        raise UsageError(f"the bundle {str(folder)!r} was made for another target", "give the same --target")
    chosen = [fastest(task.cascade, task.space, _timed(task, results)) for task in bundle.tasks]
    return {record.cascade: record for record in chosen if record is not None}


def _timed(task: BundledTask, results: Results) -> list[tuple[ScheduleRecord, Timing]]:
    answers = results.results.get(task.name, ())
    pairs = zip(task.candidates, answers, strict=False)
    return [(candidate.schedule, Timing(answer.seconds)) for candidate, answer in pairs if answer.seconds]


def fastest(cascade: str, space: SpaceRecord, timed: Sequence[tuple[ScheduleRecord, Timing]]) -> Record | None:
    """Of schedules that can't be told from the fastest, the one ranked first; ``None`` of none."""
    if not timed:
        return None
    least = min(timing.median_us for _, timing in timed)
    schedule, timing = next((s, t) for s, t in timed if t.median_us <= (1 + CLOSE) * least)
    us, noise = round(timing.median_us, 3), round(timing.noise, 4)
    return Record(cascade, schedule, "measured", space=space, time_us=us, noise=noise, trials=len(timed))
