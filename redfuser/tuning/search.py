"""The search: which candidates are timed, in which order, when it ends, and which one wins.

Candidates come ranked by the cost model. They are timed in batches that take turns with one and the same reference, the
first that could be timed, so that a machine that grows slower or faster changes no comparison: a candidate's *score* is
its time relative to the reference's in the same batch, times the reference's score. (The best so far as reference would
add up the luck that made it the best.) First the ranking is followed; then, for the second half of the trials, the
neighbours of the best, which differ from it in one choice. At the end the finalists take turns once more, longer, and
of those that can't be told apart by their noise the one ranked first wins: so that two runs choose the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from redfuser.tile.ir import Schedule
from redfuser.tuning.spaces.space import Candidate
from redfuser.tuning.timing.job import Failure, Job, Plan, Result, Timing
from redfuser.tuning.timing.runner import Runner

#: Candidates timed together, the reference among them.
BATCH = 8
#: Batches without a gain of MARGIN before the search ends.
STALE = 3
#: Times that differ by less are equal; in the last round, those that differ by less than their noise, up to the second.
MARGIN, MOST_MARGIN = 0.02, 0.03
#: What goes into the last round: scores within this of the best, so many of the fastest and of those ranked first.
FINAL_SHARE, FASTEST, FIRST = 0.15, 4, 4
TRIAL, FINAL = Plan(5, 5.0), Plan(15, 10.0)


@dataclass(frozen=True)
class Effort:
    """How much may be spent on one cascade.

    Args:
        seconds: of wall time; only the first batch begins whatever the time, and none that would last longer. The
            last round comes on top.
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
        us, noise: its time in the last round.
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
        ranked: candidates, the most promising first; ties are broken in this order.
        build: compiles a candidate.
        runner: times it.
        effort: when to stop.
        accept: checks a winner's numbers; one that fails is passed over.
        done: trials of an earlier search that was interrupted.
        record: is told each trial, and the best time so far.
    """

    ranked: Sequence[Candidate]
    build: Callable[[Candidate], Job | Failure]
    runner: Runner
    effort: Effort
    accept: Callable[[Candidate], str] = lambda _: ""
    done: Sequence[Trial] = ()
    record: Callable[[Trial, float | None], None] = lambda trial, best: None
    jobs: dict[Schedule, Job] = field(default_factory=dict)
    trials: dict[Schedule, Trial] = field(default_factory=dict)
    complete: bool = False

    def run(self) -> Winner | None:
        """The winner; ``None`` if no candidate could be built and run."""
        end = time.monotonic() + self.effort.seconds
        known = {candidate.schedule for candidate in self.ranked}
        self.trials = {trial.schedule: trial for trial in self.done if trial.schedule in known}
        stale, lasted = 0, 0.0
        while len(self.trials) < self.effort.trials and stale < STALE:
            batch, begin, before = self._next(), time.monotonic(), self._best()
            self.complete = not batch
            if not batch or (lasted and begin + lasted > end):
                return self._final()
            self._time(batch)
            lasted, after = time.monotonic() - begin, self._best()
            gained = after is not None and (before is None or (after.us or 0) < (1 - MARGIN) * (before.us or 0))
            stale = 0 if gained else stale + 1
        self.complete = True
        return self._final()

    def _best(self) -> Trial | None:
        """Of the trials that can't be told from the fastest, the one ranked first."""
        timed = [(c, t) for c in self.ranked if (t := self.trials.get(c.schedule)) and t.us is not None]
        least = min((t.us for _, t in timed if t.us is not None), default=0.0)
        return next((t for _, t in timed if t.us is not None and t.us <= (1 + MARGIN) * least), None)

    def _next(self) -> list[Candidate]:
        """Candidates of the next batch: by rank, later the best's neighbours by rank."""
        left = [c for c in self.ranked if c.schedule not in self.trials]
        best = self._best()
        room = min(BATCH - (best is not None), self.effort.trials - len(self.trials))
        if best is not None and 2 * len(self.trials) >= min(self.effort.trials, len(self.ranked)):
            near = [c for c in left if distance(c.schedule, best.schedule) == 1]
            left = [*near, *(c for c in left if c not in near)]
        return left[:room]

    def _time(self, batch: Sequence[Candidate]) -> None:
        reference = next((c for c in self.ranked if self._us(c) is not None), None)
        results: dict[Schedule, Result] = {}
        jobs: list[tuple[Candidate, Job]] = []
        for candidate in ([reference] if reference is not None else []) + list(batch):
            job = self._job(candidate)
            if isinstance(job, Failure):
                results[candidate.schedule] = job
            else:
                jobs.append((candidate, job))
        plan = Plan(TRIAL.rounds, TRIAL.milliseconds, self.effort.seed)
        for (candidate, _), result in zip(jobs, self.runner.run([job for _, job in jobs], plan), strict=True):
            results[candidate.schedule] = result
        scale = 1.0
        if reference is not None and isinstance(timed := results.get(reference.schedule), Timing):
            scale = (self._us(reference) or timed.median_us) / timed.median_us
        for candidate in batch:
            self._note(candidate, results[candidate.schedule], scale)

    def _us(self, candidate: Candidate) -> float | None:
        trial = self.trials.get(candidate.schedule)
        return trial.us if trial is not None else None

    def _job(self, candidate: Candidate) -> Job | Failure:
        if candidate.schedule in self.jobs:
            return self.jobs[candidate.schedule]
        job = self.build(candidate)
        if isinstance(job, Job):
            self.jobs[candidate.schedule] = job
        return job

    def _note(self, candidate: Candidate, result: Result, scale: float) -> None:
        if isinstance(result, Failure):
            trial = Trial(candidate.schedule, None, failure=result.text)
        else:
            trial = Trial(candidate.schedule, result.median_us * scale, result.noise)
        self.trials[candidate.schedule] = trial
        best = self._best()
        self.record(trial, best.us if best is not None else None)

    def _final(self) -> Winner | None:
        """The winner of the last round whose numbers are right."""
        timed = self._last_round()
        while timed:
            best = min(timed.values(), key=lambda timing: timing.median_us)
            winner = next(c for c in self.ranked if c in timed and _equal(timed[c], best))
            wrong = self.accept(winner)
            if not wrong:
                failures = tuple(trial for trial in self.trials.values() if trial.us is None)
                won = timed[winner]
                return Winner(winner, won.median_us, won.noise, len(self.trials), self.complete, failures)
            self._reject(winner, wrong)
            del timed[winner]
            timed = timed or self._last_round()
        return None

    def _last_round(self) -> dict[Candidate, Timing]:
        """The finalists timed together, longer. Those that fail now are out; then others come in."""
        plan = Plan(FINAL.rounds, FINAL.milliseconds, self.effort.seed)
        while finalists := self._finalists():
            jobs = {candidate: self._job(candidate) for candidate in finalists}
            entered = [(candidate, job) for candidate, job in jobs.items() if isinstance(job, Job)]
            measured = self.runner.run([job for _, job in entered], plan)
            results: dict[Candidate, Job | Result] = {
                **jobs,
                **dict(zip((c for c, _ in entered), measured, strict=True)),
            }
            timed = {candidate: result for candidate, result in results.items() if isinstance(result, Timing)}
            for candidate, result in results.items():
                if isinstance(result, Failure):
                    self._reject(candidate, result.text)
            if timed:
                return timed
        return {}

    def _reject(self, candidate: Candidate, why: str) -> None:
        self.trials[candidate.schedule] = Trial(candidate.schedule, None, failure=why)

    def _finalists(self) -> list[Candidate]:
        times = {s: t.us for s, t in self.trials.items() if t.us is not None}
        least = min(times.values(), default=0.0)
        near = [c for c in self.ranked if times.get(c.schedule, float("inf")) <= (1 + FINAL_SHARE) * least]
        fastest = sorted(near, key=lambda c: times[c.schedule])[:FASTEST]
        return fastest + [c for c in near if c not in fastest][:FIRST]


def _equal(timing: Timing, best: Timing) -> bool:
    """Whether a time can't be told from the best one."""
    margin = min(max(MARGIN, timing.noise, best.noise), MOST_MARGIN)
    return timing.median_us <= (1 + margin) * best.median_us


def distance(first: Schedule, second: Schedule) -> int:
    """In how many choices two schedules differ; a strategy and the segments that go with it are one."""
    ours, theirs = _choices(first), _choices(second)
    return sum(ours.get(name) != theirs.get(name) for name in ours.keys() | theirs.keys())


def _choices(schedule: Schedule) -> dict[str, object]:
    tiles = {f"tile {name}": size for name, size in schedule.tiles}
    strategy = (schedule.strategy, schedule.segments)
    return {"strategy": strategy, "lanes": schedule.lanes, **tiles, **dict(schedule.options)}
