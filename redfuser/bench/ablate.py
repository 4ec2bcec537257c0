"""Ablation: the same graph with every cascade unfused, resident, incremental, and cut in more and more segments.

Each variant fixes a part of the schedule and leaves the rest to the cost model; a cascade that has no such schedule
keeps its usual one.
"""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.bench.result import CaseResult, summarise
from redfuser.bench.run import Bench, Subject
from redfuser.bench.sides import UNFUSED, Side
from redfuser.driver import analyze, compile_analysis
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tuning.choose import Chooser, untuned
from redfuser.tuning.costs.cpu import CpuModel
from redfuser.tuning.costs.rates import CpuRates
from redfuser.tuning.record import Record, ScheduleRecord
from redfuser.tuning.spaces import space_of
from redfuser.tuning.spaces.space import Candidate
from redfuser.tuning.task import Task
from redfuser.tuning.tuner import rating

SEGMENTS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Variant:
    """A family of schedules: a strategy, and how many segments."""

    name: str
    strategy: str
    segments: int = 1

    def admits(self, schedule: Schedule) -> bool:
        """Whether a schedule belongs to it."""
        return (schedule.strategy, schedule.segments) == (self.strategy, self.segments)


#: From no fusion to the most: rows on chip, one pass, one pass in pieces.
VARIANTS = (
    Variant("resident", "resident"),
    Variant("incremental", "single-segment"),
    *(Variant(f"{count} segments", "multi-segment", count) for count in SEGMENTS),
)


class Ablation:
    """Compiles variants of a graph; surveys and costs are shared between them."""

    def __init__(self, bench: Bench, target: CpuTarget, rates: CpuRates) -> None:
        self.bench = bench
        self.model = CpuModel(target, rates)
        self.known: dict[str, list[Candidate]] = {}

    def run(self, subject: Subject) -> CaseResult:
        """Every variant that differs from those before it, unfused first."""
        bench = self.bench
        analysis = analyze(subject.path, bench.options, bench.progress)
        feeds = bench.feeds(analysis)
        sides: dict[str, Side] = {UNFUSED: bench.load(analysis, bench.unfused(analysis), feeds)}
        absent: dict[str, str] = {}
        for variant in VARIANTS:
            chosen: dict[str, bool] = {}
            compiled = compile_analysis(analysis, bench.options, bench.progress, self._chooser(variant, chosen))
            if any(chosen.values()):
                sides[variant.name] = bench.load(analysis, compiled.module_writer, feeds)
            else:
                absent[variant.name] = "no cascade has such a schedule"
        bench.progress.stage(f"measure {subject.name}")
        return summarise(subject.name, bench.times(sides), absent)

    def _chooser(self, variant: Variant, chosen: dict[str, bool]) -> Chooser:
        def choose(task: Task) -> Record:
            usual = untuned(task, self.bench.options)
            fitting = [c for c in self._ranked(task) if variant.admits(c.schedule)]
            chosen[task.name] = bool(fitting)
            if not fitting:
                return usual
            time = self.model.cost(fitting[0].program).us
            return Record(usual.cascade, ScheduleRecord.of(fitting[0].schedule), "modelled", time_us=round(time, 3))

        return choose

    def _ranked(self, task: Task) -> list[Candidate]:
        if task.name not in self.known:
            candidates = space_of(task.precise, task.derivation, self.bench.options.target).survey().candidates
            self.known[task.name] = sorted(candidates, key=lambda item: rating(self.model.cost(item.program)))
        return self.known[task.name]
