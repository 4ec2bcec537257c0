"""The space of schedules of one cascade on one target: knobs, and constraints as data. Knows no target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import TypeVar

from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tile.strategies.common import StrategyError

Point = Mapping[str, str | int]
T = TypeVar("T")


@dataclass(frozen=True)
class Knob:
    """One choice: its name and the values it can take, the usual one first."""

    name: str
    values: tuple[str | int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(str(value) or 'any' for value in self.values)}"


@dataclass(frozen=True)
class Rule:
    """A constraint on schedules.

    Args:
        text: what is wrong with those that break it, as it reads after their number: ``over shared memory``.
        broken: whether a schedule breaks it.
    """

    text: str
    broken: Callable[[Schedule], bool]


@dataclass(frozen=True)
class Limit:
    """A constraint on tile programs, where a schedule alone doesn't tell: see :class:`Rule`."""

    text: str
    broken: Callable[[TileProgram], bool]


@dataclass(frozen=True)
class Candidate:
    """A schedule that obeys every constraint, and the program it makes."""

    schedule: Schedule
    program: TileProgram

    def __str__(self) -> str:
        return str(self.schedule)


@dataclass(frozen=True)
class Survey:
    """All points of a space, looked at.

    Args:
        total: how many points there are.
        candidates: those that obey every constraint, each schedule once, in the order of the knobs.
        excluded: text of each constraint broken -> how many points broke it and none before it.
    """

    total: int
    candidates: tuple[Candidate, ...]
    excluded: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {text}" for text, count in self.excluded.items())
        return f"{len(self.candidates):,} of {self.total:,} candidates" + (f": {reasons}" if reasons else "")


@dataclass(frozen=True)
class Space:
    """Everything that may be tried for one cascade on one target.

    Args:
        knobs: the choices; the space is their product.
        schedule: the schedule at a point, ``None`` where the point means the same as another one.
        program: the tile program of a schedule.
        rules: checked first, in this order.
        limits: checked on the program, in this order.
    """

    knobs: tuple[Knob, ...]
    schedule: Callable[[Point], Schedule]
    program: Callable[[Schedule], TileProgram]
    rules: tuple[Rule, ...] = ()
    limits: tuple[Limit, ...] = ()

    @property
    def size(self) -> int:
        """Number of points."""
        return prod(len(knob.values) for knob in self.knobs)

    def survey(self) -> Survey:
        """Look at every point: count each constraint's victims, build the programs of the rest."""
        excluded: Counter[str] = Counter()
        candidates: dict[Schedule, Candidate] = {}
        for schedule in self._schedules():
            if schedule in candidates:
                excluded["the same as another"] += 1
                continue
            text, candidate = self._judge(schedule)
            if candidate is None:
                excluded[text] += 1
            else:
                candidates[schedule] = candidate
        return Survey(self.size, tuple(candidates.values()), dict(excluded.most_common()))

    def _schedules(self) -> Iterator[Schedule]:
        names = [knob.name for knob in self.knobs]
        for values in product(*(knob.values for knob in self.knobs)):
            yield self.schedule(dict(zip(names, values, strict=True)))

    def _judge(self, schedule: Schedule) -> tuple[str, Candidate | None]:
        for rule in self.rules:
            if rule.broken(schedule):
                return rule.text, None
        try:
            program = self.program(schedule)
        except StrategyError as error:
            return f"impossible ({error.reason.code})", None
        for limit in self.limits:
            if limit.broken(program):
                return limit.text, None
        return "", Candidate(schedule, program)

    def __str__(self) -> str:
        return "\n".join(map(str, self.knobs))


def distinct(*values: T) -> tuple[T, ...]:
    """Values of a knob, each once, in order: the usual one comes first."""
    return tuple(dict.fromkeys(values))


def strategies(default: Schedule, incremental: bool) -> tuple[str, ...]:
    """Values of the strategy's knob: without an incremental form only a resident row is possible."""
    possible = ("single-segment", "multi-segment", "resident") if incremental else ("resident",)
    return distinct(default.strategy, *possible)
