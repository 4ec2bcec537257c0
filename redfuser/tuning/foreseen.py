"""Schedules for a GPU that isn't here: ranked by the cost model, compiled, judged again by the compiler's report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from redfuser.cascade.identity import cascade_digest
from redfuser.codegen.backend import Backend, Kernel
from redfuser.codegen.backends import backend_for
from redfuser.codegen.refusal import FAILURES
from redfuser.options import CompileOptions, Progress
from redfuser.targets import GpuTarget
from redfuser.tuning.cost import Cost
from redfuser.tuning.costs.gpu import Footprint, GpuModel
from redfuser.tuning.record import Record, ScheduleRecord, SpaceRecord
from redfuser.tuning.spaces import space_of
from redfuser.tuning.spaces.space import Candidate, Survey
from redfuser.tuning.task import Task
from redfuser.tuning.tuner import rank, rating

#: Kernels that pass the compiler's gate before the best of them is taken: each costs seconds.
KEPT = 4


@dataclass(frozen=True)
class Passed:
    """A candidate that fits the target by its compiler's report, and its modelled cost with that report."""

    candidate: Candidate
    kernel: Kernel
    cost: Cost


@contextmanager
def foresight(options: CompileOptions, progress: Progress) -> Iterator[Foresight]:
    """A :class:`Foresight` for one compile, its compilers running for as long."""
    assert isinstance(options.target, GpuTarget)
    with backend_for(options.target, options.fp32) as backend:
        yield Foresight(options, options.target, progress, backend)


class Foresight:
    """Finds schedules by the cost model and the compiler."""

    def __init__(self, options: CompileOptions, target: GpuTarget, progress: Progress, backend: Backend) -> None:
        self.options, self.target, self.progress, self.backend = options, target, progress, backend
        self.model = GpuModel(target, options.fp32)
        self.end = time.monotonic() + options.tune_seconds

    def tune(self, task: Task) -> Record | None:
        """The candidate of least modelled cost among those that pass; ``None`` if none does."""
        survey, passed = self.passed(task, KEPT)
        if not passed:
            return None
        best = min(passed, key=lambda each: rating(each.cost))
        return Record(
            cascade=cascade_digest(task.cascade),
            schedule=ScheduleRecord.of(best.candidate.schedule),
            how="modelled",
            time_us=round(best.cost.us, 3),
            space=SpaceRecord.of(survey),
        )

    def passed(self, task: Task, wanted: int) -> tuple[Survey, list[Passed]]:
        """The space, and its most promising candidates that pass the gate; fewer where the time doesn't suffice."""
        self.progress.stage(f"tune {task.name}")
        survey = space_of(task.precise, task.derivation, self.target, self.options.fp32).survey()
        self.progress.note(str(survey))
        end = time.monotonic() + max(self.end - time.monotonic(), 0.0) / task.left
        passed: list[Passed] = []
        ranked = rank(survey, self.model)[: self.options.trials]
        lasted = 0.0
        for candidate in ranked:
            begin = time.monotonic()
            # The first is compiled whatever the time, and none that would last longer than there is.
            if len(passed) == wanted or (lasted and begin + lasted > end):
                break
            try:
                kernel = self.backend.generate(candidate.program, self.options.seed)
            except FAILURES as failure:
                self.progress.note(f"skipped {candidate.schedule.as_dict()}: {failure}")
                continue
            finally:
                lasted = time.monotonic() - begin
            passed.append(Passed(candidate, kernel, self.model.cost(candidate.program, footprints(kernel))))
            self.progress.step(len(passed), min(wanted, len(ranked)))
        return survey, passed


def footprints(kernel: Kernel) -> list[Footprint]:
    """What the compiler says of each phase."""
    found = [step.resources for step in kernel.code.kernels]
    return [Footprint(used.registers, used.static_shared + used.dynamic_shared) for used in found]
