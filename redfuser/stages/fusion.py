"""One cascade from algebra to machine code, or the reason why it stays unfused. May import every stage.

Fusion may fail, compilation may not: whatever goes wrong in a stage here becomes a reason in the report, which is
why exceptions of every kind are caught here.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from redfuser.algebra import Memo
from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Backend, Kernel
from redfuser.codegen.refusal import reason_of
from redfuser.errors import LockMissError, MissingToolError
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.reason import Reason
from redfuser.records import digest
from redfuser.report.value import Time, Traffic
from redfuser.tile.ir import Schedule
from redfuser.tile.untuned.choice import Choice
from redfuser.tuning.record import Record, ScheduleRecord

if TYPE_CHECKING:
    from redfuser.tuning.choose import Chooser


@dataclass(frozen=True)
class Outcome:
    """What became of one canonical cascade.

    Args:
        traffic: compulsory memory traffic, fused and unfused.
        precise: the cascade as it was derived, in the precision it is computed in.
        derivation: the algebra's verdict; None if it failed.
        record: how it is to be computed, how that was chosen, and its time; None if nothing was.
        kernel: the kernel; None before code generation, or if that failed.
        reason: why it isn't fused; None if it is. A record stays where measuring gave the reason.
    """

    traffic: Traffic
    precise: Cascade | None = None
    derivation: Derivation | None = None
    record: Record | None = None
    kernel: Kernel | None = None
    reason: Reason | None = None

    @property
    def schedule(self) -> Schedule | None:
        """How it is to be computed."""
        return self.record.schedule.schedule() if self.record is not None and self.record.fused else None

    @property
    def time(self) -> Time | None:
        """Of one execution, measured or modelled."""
        if self.record is None or self.schedule is None:
            return None
        return Time(self.record.time_us, "measured" if self.record.trials else "modelled")


def plan(
    cascade: Cascade,
    name: str,
    options: CompileOptions,
    choose: Chooser | None = None,
    memo: Memo | None = None,
) -> Outcome:
    """Derive a canonical cascade (see :mod:`redfuser.cascade.canonical`) and choose its schedule.

    Args:
        name: of the kernel, unique in the module.
        choose: decides on the schedule; without it the target's untuned choice is taken.
        memo: of the whole model, as for :func:`redfuser.algebra.derive`.

    Raises:
        LockMissError: the lock must decide and doesn't.
        MissingToolError: what should decide can't be reached.
    """
    from redfuser.algebra import derive
    from redfuser.tile.traffic import traffic
    from redfuser.tuning.choose import untuned
    from redfuser.tuning.task import Task

    outcome = Outcome(traffic(cascade))
    try:
        outcome = replace(outcome, precise=(precise := with_precision(cascade)))
        outcome = replace(outcome, derivation=(derivation := derive(precise, options.numerics, memo)))
        task = Task(name, cascade, precise, derivation)
        return replace(outcome, record=choose(task) if choose is not None else untuned(task, options))
    except (LockMissError, MissingToolError):
        raise
    except Exception as failure:
        return replace(outcome, reason=reason_of(failure))


def with_precision(cascade: Cascade) -> Cascade:
    """The cascade in the precision it is computed in: never less than its types say (METHOD §4)."""
    from redfuser.cascade.precision.centre import sharpen_centres
    from redfuser.cascade.precision.widen import widen

    return sharpen_centres(widen(cascade))


def fuse(
    cascade: Cascade,
    name: str,
    options: CompileOptions,
    backend: Backend,
    choose: Chooser | None = None,
    memo: Memo | None = None,
) -> Outcome:
    """Plan, build, generate and check one canonical cascade.

    Args:
        backend: of the options' target. The others are those of :func:`plan`.

    Raises:
        LockMissError: the lock must decide and doesn't, or another kernel came of what it says.
        MissingToolError: what should decide can't be reached.
    """
    from redfuser.tuning.settle import Attempt, settle

    outcome = plan(cascade, name, options, choose, memo)
    if outcome.record is not None and not outcome.record.fused:
        return replace(outcome, reason=_unprofitable(outcome.record))
    if outcome.precise is None or outcome.derivation is None or outcome.record is None or outcome.schedule is None:
        return outcome
    first = Choice(outcome.schedule, outcome.record.told.why)
    others = backend.choices(outcome.precise, outcome.derivation)
    line = (first, *(choice for choice in others if ScheduleRecord.of(choice.schedule) != outcome.record.schedule))
    refused: list[Reason] = []
    for choice in line:
        try:
            kernel = _generate(outcome.precise, name, outcome.derivation, choice.schedule, options.seed, backend)
        except Exception as failure:
            refused.append(reason_of(failure))
            continue
        break
    else:
        return replace(outcome, record=None, reason=refused[0])
    if kernel.error is not None and not kernel.error.passed:
        reason = Reason("check-failed", "the kernel's numbers don't meet the accuracy rule", str(kernel.error))
        return replace(outcome, record=None, reason=reason)
    attempt = Attempt(line, refused, kernel)
    record = settle(outcome.record, outcome.precise, outcome.derivation, attempt, options)
    return replace(outcome, kernel=kernel, record=_sealed(record, kernel, options))


def _unprofitable(record: Record) -> Reason:
    times = f"{1 / record.gain:.1f} times slower fused" if record.gain else "slower fused when the lock was made"
    witness = f"measured {times}, the best schedule being {record.schedule.strategy}"
    return Reason("slower-fused", "the unfused graph was measured to be faster", witness)


@dataclass
class ProductMaker:
    """Makes kernels of lone matrix products, which tuning leaves alone; notes what stays without one.

    Args:
        options: of the compile.
        backend: of the options' target.
        progress: is told.
        made: what became of each product, by name.
    """

    options: CompileOptions
    backend: Backend
    progress: Progress
    made: dict[str, Outcome] = field(default_factory=dict)
    memo: Memo = field(default_factory=dict)

    def __call__(self, cascade: Cascade, name: str) -> Kernel | None:
        """The kernel of a product, a canonical cascade.

        Raises:
            LockMissError, MissingToolError: see :func:`fuse`.
        """
        from redfuser.tuning.choose import by_lock_or_rule

        choose = partial(by_lock_or_rule, options=self.options)
        self.made[name] = outcome = fuse(cascade, name, self.options, self.backend, choose, self.memo)
        if outcome.reason is not None:
            self.progress.note(f"{name} is left to TVM: {outcome.reason}")
        return outcome.kernel


def _sealed(record: Record, kernel: Kernel, options: CompileOptions) -> Record:
    """The record with its kernel's digest, which must be the one locked."""
    sha256 = digest(kernel.texts)
    if options.locked and not record.told.locked:
        raise LockMissError(
            f"the tuning lock has no schedule for {kernel.program.name}", "tune again: redfuser tune MODEL -o LOCK"
        )
    if options.locked and record.kernel != sha256:
        raise LockMissError(
            f"{kernel.program.name} isn't the kernel that was locked: the generator has changed since",
            "tune again: redfuser tune MODEL -o LOCK",
        )
    return replace(record, kernel=sha256)


def _generate(
    cascade: Cascade, name: str, derivation: Derivation, schedule: Schedule, seed: int, backend: Backend
) -> Kernel:
    from redfuser.tile import build, verify

    program = build(cascade, derivation, schedule, name)
    verify(program)
    return backend.generate(program, seed)
