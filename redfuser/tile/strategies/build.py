"""From a cascade, its derivation and a schedule to a tile program."""

from __future__ import annotations

from dataclasses import replace

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.reason import Reason
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.strategies.apart import APART, build_apart
from redfuser.tile.strategies.common import StrategyError, streams
from redfuser.tile.strategies.multi_segment import build_multi_segment
from redfuser.tile.strategies.resident import build_resident
from redfuser.tile.strategies.single_segment import build_single_segment

__all__ = ["StrategyError", "build"]

_BUILDERS = {
    "single-segment": build_single_segment,
    "multi-segment": build_multi_segment,
    "resident": build_resident,
}


def build(cascade: Cascade, derivation: Derivation, schedule: Schedule, name: str = "") -> TileProgram:
    """The program that the schedule's strategy makes of a cascade (METHOD §5).

    Args:
        cascade: verified.
        derivation: the algebra's verdict on it; ``resident`` needs no recurrences.
        schedule: its strategy is ``single-segment``, ``multi-segment`` or ``resident``.
        name: of the program; the cascade's own if empty.

    Raises:
        StrategyError: the strategy can't carry this cascade, with the reason.
        ValueError: not a strategy that makes a program.
    """
    if schedule.strategy not in _BUILDERS:
        raise ValueError(f"no program for strategy {schedule.strategy!r}")
    if schedule.strategy != "resident" and not streams(cascade, derivation):
        text = f"{schedule.strategy} needs an incremental form and an element to start from"
        raise StrategyError(derivation.obstacle or Reason("not-incremental", text, str(cascade.axis.extent)))
    apart = schedule.strategy == "resident" and dict(schedule.options).get(APART)
    builder = build_apart if apart else _BUILDERS[schedule.strategy]
    program = builder(cascade, derivation, schedule)
    return replace(program, name=name or cascade.name, normal=cascade.normal)
