"""Tunes the cascades of one compile: cache, space, ranking, search, record."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from redfuser.cascade.identity import cascade_digest
from redfuser.codegen.backends import backend_for
from redfuser.codegen.cpu.build import runs_here
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.records import digest
from redfuser.targets import CpuTarget
from redfuser.tile.ir import TileProgram
from redfuser.tuning.cache import Cache, cache_folder
from redfuser.tuning.cost import Cost
from redfuser.tuning.costs.calibrate import calibrated
from redfuser.tuning.costs.cpu import CpuModel
from redfuser.tuning.costs.rates import CpuRates
from redfuser.tuning.fingerprint import generator_digest, machine_name
from redfuser.tuning.record import Record, ScheduleRecord, SpaceRecord, code_tools
from redfuser.tuning.search import Effort, Search, Trial, Winner
from redfuser.tuning.spaces import space_of
from redfuser.tuning.spaces.space import Candidate, Survey
from redfuser.tuning.task import Task
from redfuser.tuning.timing.runner import LocalRunner, Runner
from redfuser.tuning.unfused import gain

if TYPE_CHECKING:
    from redfuser.tuning.timing.builder import Builder

RECORDS, TRIALS = "records", "trials"


@dataclass(frozen=True)
class TrialRecord:
    """A trial as the journal keeps it, so that an interrupted search goes on where it was."""

    schedule: ScheduleRecord
    us: float | None
    noise: float
    failure: str

    @staticmethod
    def of(trial: Trial) -> TrialRecord:
        """The record of a trial."""
        return TrialRecord(ScheduleRecord.of(trial.schedule), trial.us, trial.noise, trial.failure)

    def trial(self) -> Trial:
        """The trial recorded."""
        return Trial(self.schedule.schedule(), self.us, self.noise, self.failure)


@contextmanager
def tuning(
    options: CompileOptions, progress: Progress, remote: Runner | None = None, where: str = ""
) -> Iterator[Tuner]:
    """A tuner with a measuring process and a scratch folder of its own, for the time of one compile.

    Args:
        remote: times candidates elsewhere instead.
        where: what to call that place.
    """
    runner = remote or LocalRunner(options.target.cores if isinstance(options.target, CpuTarget) else 1)
    cache = Cache(cache_folder(), progress.warn)
    with tempfile.TemporaryDirectory(prefix="redfuser-tune-") as scratch:
        try:
            yield Tuner(options, progress, runner, where or machine_name(), cache, Path(scratch))
        finally:
            runner.close()


class Tuner:
    """Finds schedules by measuring.

    Args:
        options: target, budget, trials, seed.
        progress: told what is tuned and how it stands.
        runner: times candidates.
        where: the machine it does so on.
        cache: where results are kept.
        scratch: a folder for compiled candidates.
    """

    def __init__(
        self,
        options: CompileOptions,
        progress: Progress,
        runner: Runner,
        where: str,
        cache: Cache,
        scratch: Path,
    ) -> None:
        self.options, self.progress, self.runner, self.where, self.cache = options, progress, runner, where, cache
        self.scratch = scratch
        self.end = time.monotonic() + options.tune_seconds
        self.rates: CpuRates | None = None
        self.builder: Builder | None = None

    def tune(self, task: Task) -> Record | None:
        """The best schedule found now or before; ``None`` where the target can't be measured."""
        target = self.options.target
        here = isinstance(self.runner, LocalRunner)
        if not isinstance(target, CpuTarget) or (here and not runs_here(target)):
            self.progress.warn(f"{task.name} isn't tuned: this machine can't run code for {target.name}")
            return None
        key = self._key(task)
        return self.cache.read(Record, RECORDS, key) or self._search(task, key)

    def _key(self, task: Task) -> str:
        """Everything that can change the result."""
        options = self.options
        return digest(
            {
                "cascade": cascade_digest(task.cascade),
                "derivation": str(task.derivation),
                "target": options.target,
                "numerics": options.numerics,
                "tools": code_tools(options.target),
                "generator": generator_digest(),
                "machine": self.where,
                "trials": options.trials,
                "seed": options.seed,
            }
        )

    def _search(self, task: Task, key: str) -> Record | None:
        assert isinstance(self.options.target, CpuTarget)
        self.progress.stage(f"tune {task.name}")
        survey = space_of(task.precise, task.derivation, self.options.target).survey()
        self.progress.note(str(survey))
        builder = self._builder(self.options.target)
        self.rates = self.rates or calibrated(self.options.target, self.runner, builder.build, self.cache, self.where)
        nominal = CpuRates.nominal(self.options.target)
        ranked = rank(survey, CpuModel(self.options.target, self.rates.coarse(nominal)))
        seconds = max(self.end - time.monotonic(), 0.0) / task.left
        effort = Effort(seconds, self.options.trials, self.options.seed)
        timed = 0

        def told(trial: Trial, best: float | None) -> None:
            nonlocal timed
            timed += 1
            self.cache.append(TRIALS, key, TrialRecord.of(trial))
            self.progress.step(timed, min(effort.trials, len(survey.candidates)))
            if trial.failure:
                self.progress.note(f"skipped {trial.schedule.as_dict()}: {trial.failure}")
            if best is not None:
                self.progress.status(f"best {best:.4g} us after {timed} candidates")

        done = [record.trial() for record in self.cache.lines(TrialRecord, TRIALS, key)]
        winner = Search(
            ranked=ranked,
            build=lambda candidate: builder.build(candidate.program),
            runner=self.runner,
            effort=effort,
            accept=self._check,
            done=done,
            record=told,
            preferred=rank(survey, CpuModel(self.options.target, nominal)),
        ).run()
        if winner is None:
            return None
        record = _record(task, winner, survey)
        if task.part is not None:
            program = winner.candidate.program
            found = gain(task.part(), program, self.options, builder, self.runner, self.progress.note)
            record = record.against_unfused(found)
        if winner.complete:
            self.cache.write(RECORDS, key, record)
            self.cache.drop(TRIALS, key)
        return record

    def _builder(self, target: CpuTarget) -> Builder:
        """One for all cascades: a process that once loaded a library of some name is never given another of it."""
        from redfuser.tuning.timing.builder import Builder

        self.builder = self.builder or Builder(target, self.scratch)
        return self.builder

    def _check(self, candidate: Candidate) -> str:
        """What is wrong with a candidate's numbers; empty if nothing is."""
        return check(candidate.program, self.options)


def _record(task: Task, winner: Winner, survey: Survey) -> Record:
    return Record(
        cascade=cascade_digest(task.cascade),
        schedule=ScheduleRecord.of(winner.candidate.schedule),
        how="measured",
        time_us=round(winner.us, 3),
        noise=round(winner.noise, 4),
        trials=winner.trials,
        space=SpaceRecord.of(survey),
    )


class Model(Protocol):
    """Judges programs for one target."""

    def cost(self, program: TileProgram) -> Cost:
        """The modelled cost of one execution."""


def rating(cost: Cost) -> float:
    """Modelled microseconds, as far as a model can tell candidates apart."""
    return float(f"{cost.us:.3g}")


def rank(survey: Survey, model: Model) -> list[Candidate]:
    """The usual choice, then the others by modelled cost; equal ones in the order of the knobs."""
    first, others = survey.candidates[:1], survey.candidates[1:]
    return [*first, *sorted(others, key=lambda candidate: rating(model.cost(candidate.program)))]


def check(program: TileProgram, options: CompileOptions) -> str:
    """What is wrong with the numbers of a program's kernel; empty if nothing is."""
    error = backend_for(options.target).generate(program, options.seed).error
    return "" if error is None or error.passed else f"its numbers don't meet the accuracy rule: {error}"
