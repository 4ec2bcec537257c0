"""Schedules for a GPU that isn't here: ranked by the cost model, compiled, judged again by the compiler's report."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from redfuser.cascade.identity import cascade_digest
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Backend, Kernel
from redfuser.codegen.backends import backend_for
from redfuser.codegen.gpu.product_schedule import product_shape, product_us
from redfuser.codegen.refusal import FAILURES, counted, reason_of
from redfuser.expr.binding import at_sizes, usual_sizes
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.reason import Reason
from redfuser.targets import GpuTarget
from redfuser.tile.concrete import program_at
from redfuser.tile.ir import TileProgram
from redfuser.tuning.cost import Cost
from redfuser.tuning.costs.gpu import Footprint, GpuModel
from redfuser.tuning.record import Record, ScheduleRecord, SpaceRecord, Told
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


@dataclass(frozen=True)
class Sifted:
    """A space, those of its candidates that fit by their compiler's report, and why the others compiled don't."""

    survey: Survey
    passed: tuple[Passed, ...]
    refused: tuple[Reason, ...]


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
        sifted = self.sift(task, KEPT)
        if not sifted.passed:
            return None
        best, *others = sorted(sifted.passed, key=lambda each: rating(each.cost))
        told = Told(
            compiled=len(sifted.passed) + len(sifted.refused),
            refused=counted(sifted.refused),
            next_us=round(others[0].cost.us, 3) if others else 0.0,
        )
        return Record(
            cascade=cascade_digest(task.cascade),
            schedule=ScheduleRecord.of(best.candidate.schedule),
            how="modelled",
            time_us=round(best.cost.us, 3),
            space=SpaceRecord.of(sifted.survey),
            told=told,
        )

    def sift(self, task: Task, wanted: int) -> Sifted:
        """The most promising candidates that pass the gate; fewer where the time doesn't suffice."""
        self.progress.stage(f"tune {task.name}")
        survey = space_of(task.precise, task.derivation, self.target, self.options.fp32).survey()
        self.progress.note(str(survey))
        end = time.monotonic() + max(self.end - time.monotonic(), 0.0) / task.left
        passed: list[Passed] = []
        refused: list[Reason] = []
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
                refused.append(reason_of(failure))
                continue
            finally:
                lasted = time.monotonic() - begin
            passed.append(Passed(candidate, kernel, self.model.cost(candidate.program, footprints(kernel))))
            self.progress.step(len(passed), min(wanted, len(ranked)))
        return Sifted(survey, tuple(passed), tuple(refused))


def foreseen_us(cascade: Cascade, program: TileProgram, model: GpuModel, kernel: Kernel | None = None) -> float:
    """The modelled time of a schedule, whoever chose it, in microseconds; at usual sizes where some are open.

    Args:
        cascade: in the precision it is computed in.
        program: of the schedule.
        kernel: of the program, whose compiler's report counts; estimated from the scripts without it.

    Raises:
        Refused: no script comes of the program.
    """
    sizes = usual_sizes(cascade)
    cascade, program = at_sizes(cascade, sizes), program_at(program, sizes)
    shape = product_shape(cascade)
    if shape is not None:
        return round(product_us(shape, program.schedule, model.target), 3)
    return round(model.cost(program, footprints(kernel) if kernel is not None else ()).us, 3)


def footprints(kernel: Kernel) -> list[Footprint]:
    """What the compiler says of each phase."""
    found = [step.resources for step in kernel.code.kernels]
    return [Footprint(used.registers, used.static_shared + used.dynamic_shared) for used in found]
