"""Which schedule a cascade gets: the lock's, one found by tuning, or the target's own untuned choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from redfuser.cascade.identity import cascade_digest
from redfuser.codegen.backends import backend_for
from redfuser.errors import LockMissError
from redfuser.expr.binding import dims_in
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.targets import CpuTarget
from redfuser.tile.traffic import traffic
from redfuser.tuning.cost import modelled_us
from redfuser.tuning.record import Record, ScheduleRecord, Told
from redfuser.tuning.task import Task

Chooser = Callable[[Task], Record]


class Tuning(Protocol):
    """What looks for a schedule."""

    def tune(self, task: Task) -> Record | None:
        """The best found; ``None`` where there is no way to tell."""


def untuned(task: Task, options: CompileOptions) -> Record:
    """The target's own choice, its time modelled."""
    first = backend_for(options.target).choices(task.precise, task.derivation)[0]
    return Record(
        cascade=cascade_digest(task.cascade),
        schedule=ScheduleRecord.of(first.schedule),
        how="modelled",
        time_us=_foreseen(task, options),
        told=Told(first.why),
    )


def by_lock_or_rule(task: Task, options: CompileOptions) -> Record:
    """The lock's, else the target's own choice: what has no kernel has no place in a lock either."""
    usable = options.lock is not None and not options.lock.obstacle(options.target)
    record = options.lock.find(cascade_digest(task.cascade), task.name) if options.lock and usable else None
    return untuned(task, options) if record is None else record.decided(_foreseen(task, options))


def _foreseen(task: Task, options: CompileOptions) -> float:
    """The modelled time of a task, whatever its schedule."""
    return modelled_us(traffic(task.cascade), options.target)


@contextmanager
def chooser(options: CompileOptions, progress: Progress) -> Iterator[Chooser]:
    """What decides during one compile; holds the measuring process for as long."""
    obstacle = options.lock.obstacle(options.target) if options.lock is not None else "no lock was given"
    if options.locked and obstacle:
        raise LockMissError(f"the tuning lock can't be used: {obstacle}", "tune again: redfuser tune MODEL -o LOCK")
    if options.lock is not None and obstacle:
        progress.warn(f"the tuning lock is ignored: {obstacle}")
    with ExitStack() as stack:
        tuner = stack.enter_context(_tuner(options, progress)) if options.tune_seconds else None

        def choose(task: Task) -> Record:
            record = by_lock_or_rule(task, options)
            # Sizes that are known on the call only give no time to measure.
            if record.told.locked or options.locked or tuner is None or dims_in(task.cascade):
                return record
            return tuner.tune(task) or record

        yield choose


def _tuner(options: CompileOptions, progress: Progress) -> AbstractContextManager[Tuning]:
    """By measuring here, or by a model of what isn't here."""
    if isinstance(options.target, CpuTarget):
        from redfuser.tuning.tuner import tuning

        return tuning(options, progress)
    from redfuser.tuning.foreseen import foresight

    return foresight(options, progress)
