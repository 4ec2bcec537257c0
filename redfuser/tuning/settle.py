"""What a record tells once its kernel is there: the choice that a kernel came of, and the model's time of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Kernel
from redfuser.codegen.refusal import FAILURES, counted
from redfuser.options import CompileOptions
from redfuser.reason import Reason
from redfuser.targets import GpuTarget
from redfuser.tile.strategies.build import build
from redfuser.tile.strategies.common import StrategyError
from redfuser.tile.untuned.choice import Choice
from redfuser.tuning.record import Record, ScheduleRecord, Told


@dataclass(frozen=True)
class Attempt:
    """Choices tried in turn, until a kernel came of one.

    Args:
        line: the choices, in turn.
        refused: why no kernel came of the first of them.
        kernel: of the next.
    """

    line: Sequence[Choice]
    refused: Sequence[Reason]
    kernel: Kernel

    @property
    def chosen(self) -> Choice:
        """What the kernel came of."""
        return self.line[len(self.refused)]

    @property
    def left(self) -> Sequence[Choice]:
        """What wasn't tried."""
        return self.line[len(self.refused) + 1 :]


def settle(
    record: Record, cascade: Cascade, derivation: Derivation, attempt: Attempt, options: CompileOptions
) -> Record:
    """The record of a choice whose kernel is there.

    Args:
        record: of what was tried first.
        cascade: in the precision it is computed in.
        derivation: its verdict.
    """
    if attempt.refused:
        # A rule takes over from whatever chose first.
        record = Record(record.cascade, ScheduleRecord.of(attempt.chosen.schedule), "modelled", time_us=record.time_us)
    if not isinstance(options.target, GpuTarget):
        return replace(record, told=replace(record.told, why=attempt.chosen.why))
    return _foreseen(record, cascade, derivation, attempt, options)


def _foreseen(
    record: Record, cascade: Cascade, derivation: Derivation, attempt: Attempt, options: CompileOptions
) -> Record:
    """For a GPU: the time of this schedule and of the next in line, by the model, unless it was measured."""
    from redfuser.tuning.costs.gpu import GpuModel
    from redfuser.tuning.foreseen import foreseen_us

    assert isinstance(options.target, GpuTarget)
    model = GpuModel(options.target, options.fp32)
    if not record.trials:
        record = replace(record, time_us=foreseen_us(cascade, attempt.kernel.program, model, attempt.kernel))
    if record.space is not None or record.told.locked:
        return record
    next_us = 0.0
    for choice in attempt.left:
        try:
            next_us = foreseen_us(cascade, build(cascade, derivation, choice.schedule), model)
        except (StrategyError, *FAILURES):
            continue
        break
    told = Told(attempt.chosen.why, False, len(attempt.refused) + 1, counted(attempt.refused), next_us)
    return replace(record, told=told)
