"""The search: which candidates are timed, in which order, when it ends, and which one wins.

Candidates come ranked by the cost model. The first half of the trials goes to those ranked first. Then the finalists
take turns, longer, and the winner's neighbours, which differ from it in one choice, are tried; and so on, until a
winner has no neighbour left that wasn't tried: the early end.

Candidates are timed in batches that take turns with one and the same reference, the first that could be timed, so that
a machine that grows slower or faster changes no comparison: a candidate's *score* is its time relative to the
reference's in the same turn, times the reference's score. Scores only choose finalists; who wins is for
:mod:`redfuser.tuning.finals`, with as many sittings as it takes to tell, so that two runs choose the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from redfuser.tile.ir import Schedule
from redfuser.tuning.finals import Comparison, compare
from redfuser.tuning.spaces.space import Candidate
from redfuser.tuning.timing.job import Failure, Job, Plan, Result, Timing
from redfuser.tuning.timing.runner import Runner

#: Candidates timed together, the reference among them.
BATCH = 8
#: Who takes part in a final: so many of the fastest, and of those preferred first; none of a score this much above the
#: least, which one lucky turn of the machine may have made.
FASTEST, FIRST, FINAL_SHARE = 8, 4, 0.5
#: Turns of a trial, and of one sitting of a final.
TRIAL, FINAL = Plan(9, 5.0), Plan(15, 10.0)
#: Sittings of a final, at least and at most, each in a process of its own: where its arrays lie in the caches can
#: favour a candidate by a tenth for as long as a process lives.
LEAST_SITTINGS, SITTINGS = 3, 6


@dataclass(frozen=True)
class Effort:
    """How much may be spent on one cascade.

    Args:
        seconds: of wall time; only the first batch begins whatever the time, and none that would last longer. The
            last final comes on top.
        trials: candidates timed.
        seed: of the arrays that kernels are timed on.
    """

    seconds: float
    trials: int = 64
    seed: int = 0


@dataclass(frozen=True)
class Trial:
    """One candidate's result: its score in microseconds, or why it has none."""

    schedule: Schedule
    us: float | None
    noise: float = 0.0
    failure: str = ""


@dataclass(frozen=True)
class Winner:
    """What the search chose.

    Args:
        candidate: the choice.
        us, noise: its time in the last final.
        trials: how many were timed.
        complete: whether the search came to its end, and not to that of its time.
        failures: candidates that couldn't be built, run or trusted.
    """

    candidate: Candidate
    us: float
    noise: float
    trials: int
    complete: bool
    failures: tuple[Trial, ...] = ()


@dataclass
class Search:
    """One search.

    Args:
        ranked: candidates, the most promising first.
        build: compiles a candidate.
        runner: times it.
        effort: when to stop.
        accept: checks a winner's numbers; one that fails is passed over.
        done: trials of an earlier search that was interrupted.
        record: is told each trial, and the best score so far.
        preferred: the candidates in the order that breaks ties; as ranked unless told. A ranking by rates that were
            measured here isn't the same twice.
    """

    ranked: Sequence[Candidate]
    build: Callable[[Candidate], Job | Failure]
    runner: Runner
    effort: Effort
    accept: Callable[[Candidate], str] = lambda _: ""
    done: Sequence[Trial] = ()
    record: Callable[[Trial, float | None], None] = lambda trial, best: None
    preferred: Sequence[Candidate] = ()
    jobs: dict[Schedule, Job] = field(default_factory=dict)
    trials: dict[Schedule, Trial] = field(default_factory=dict)

    def run(self) -> Winner | None:
        """The winner; ``None`` if no candidate could be built and run."""
        end = time.monotonic() + self.effort.seconds
        known = {candidate.schedule for candidate in self.ranked}
        self.trials = {trial.schedule: trial for trial in self.done if trial.schedule in known}
        wanted = self.ranked[: min(max(self.effort.trials // 2, BATCH), self.effort.trials)]
        while True:
            in_time = self._time_all(wanted, end)
            won = self._final(end)
            wanted = self._wanted(won.winner if won is not None else None)
            if not wanted or not in_time:
                return self._winner(won, complete=in_time)

    def _wanted(self, winner: Candidate | None) -> list[Candidate]:
        """What to try next: a winner's neighbours; without one, whatever is left."""
        left = [candidate for candidate in self.ranked if candidate.schedule not in self.trials]
        if winner is not None:
            left = [c for c in left if distance(c.schedule, winner.schedule) == 1]
        return left[: max(self.effort.trials - len(self.trials), 0)]

    def _time_all(self, wanted: Sequence[Candidate], end: float) -> bool:
        """Time those that weren't timed before; whether there was time for all."""
        left = iter([candidate for candidate in wanted if candidate.schedule not in self.trials])
        lasted = 0.0
        while batch := list(islice(left, BATCH - (self._reference() is not None))):
            begin = time.monotonic()
            if self._reference() is not None and begin + lasted > end:
                return False
            self._time(batch)
            lasted = time.monotonic() - begin
        return True

    def _time(self, batch: Sequence[Candidate]) -> None:
        reference = self._reference()
        entrants = ([reference] if reference is not None else []) + list(batch)
        timed = self._turns(entrants, TRIAL)
        if not timed:
            return
        first, timing = timed[0]
        known = self.trials.get(first.schedule)
        scores = compare(timed).scores(known.us if known is not None and known.us is not None else timing.median_us)
        for candidate, timing in timed:
            if candidate is not reference:
                self._note(Trial(candidate.schedule, scores[candidate], timing.noise))

    def _turns(self, candidates: Sequence[Candidate], plan: Plan) -> list[tuple[Candidate, Timing]]:
        """Time candidates that take turns; those that fail are noted and left out."""
        jobs = {candidate: self._job(candidate) for candidate in candidates}
        entered = [(candidate, job) for candidate, job in jobs.items() if isinstance(job, Job)]
        plan = Plan(plan.rounds, plan.milliseconds, self.effort.seed)
        measured = self.runner.run([job for _, job in entered], plan) if entered else []
        results: dict[Candidate, Job | Result] = {**jobs, **dict(zip((c for c, _ in entered), measured, strict=True))}
        for candidate, result in results.items():
            if isinstance(result, Failure):
                self._note(Trial(candidate.schedule, None, failure=result.text))
        return [(candidate, result) for candidate, result in results.items() if isinstance(result, Timing)]

    def _job(self, candidate: Candidate) -> Job | Failure:
        if candidate.schedule in self.jobs:
            return self.jobs[candidate.schedule]
        job = self.build(candidate)
        if isinstance(job, Job):
            self.jobs[candidate.schedule] = job
        return job

    def _note(self, trial: Trial) -> None:
        self.trials[trial.schedule] = trial
        self.record(trial, min(self._scores().values(), default=None))

    def _scores(self) -> dict[Schedule, float]:
        return {schedule: trial.us for schedule, trial in self.trials.items() if trial.us is not None}

    def _reference(self) -> Candidate | None:
        scores = self._scores()
        return next((candidate for candidate in self.ranked if candidate.schedule in scores), None)

    def _final(self, end: float) -> Comparison[Candidate] | None:
        """Finalists against each other; the winner's numbers are right. ``None`` if nothing is left."""
        while finalists := list(self._finalists()):
            final: Comparison[Candidate] | None = None
            least = LEAST_SITTINGS if len(finalists) > 1 else 1
            for sitting in range(1, SITTINGS + 1):
                self.runner.close()
                timed = self._turns(finalists, FINAL)
                if [candidate for candidate, _ in timed] != finalists:
                    break
                final = compare(timed, final)
                if (final.settled and sitting >= least) or time.monotonic() > end:
                    break
            if final is None or len(timed) < len(finalists):
                continue
            wrong = self.accept(final.winner)
            if not wrong:
                return final
            self._note(Trial(final.winner.schedule, None, failure=wrong))
        return None

    def _finalists(self) -> Iterator[Candidate]:
        scores = self._scores()
        most = (1 + FINAL_SHARE) * min(scores.values(), default=0.0)
        near = [c for c in self.preferred or self.ranked if scores.get(c.schedule, math.inf) <= most]
        fastest = sorted(near, key=lambda c: scores[c.schedule])[:FASTEST]
        first = near[:FIRST]
        return (candidate for candidate in near if candidate in fastest or candidate in first)

    def _winner(self, final: Comparison[Candidate] | None, complete: bool) -> Winner | None:
        if final is None:
            return None
        timing = final.timing(final.winner)
        failures = tuple(trial for trial in self.trials.values() if trial.us is None)
        return Winner(final.winner, timing.median_us, timing.noise, len(self.trials), complete, failures)


def distance(first: Schedule, second: Schedule) -> int:
    """In how many choices two schedules differ; a strategy and the segments that go with it are one."""
    ours, theirs = _choices(first), _choices(second)
    return sum(ours.get(name) != theirs.get(name) for name in ours.keys() | theirs.keys())


def _choices(schedule: Schedule) -> dict[str, object]:
    tiles = {f"tile {name}": size for name, size in schedule.tiles}
    strategy = (schedule.strategy, schedule.segments)
    return {"strategy": strategy, "lanes": schedule.lanes, **tiles, **dict(schedule.options)}
