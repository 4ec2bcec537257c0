"""Hold the tuner's choice, the untuned one and the cost model's against the best of all candidates.

    python -m tests.bench.tuning --build                 # compile every candidate; nothing is timed
    python -m tests.bench.tuning                         # time them, and print the table
    python -m tests.bench.tuning softmax --seconds 100   # go on with one for so long; the next call goes on from there

All candidates take turns with the untuned one, some at a time; then the best of them take turns once more, longer, with
the three choices, in several processes. The fastest of that round is what the choices are held against, by the median,
over the turns, of one's time by the other's. What is known is kept in a folder, so that a run may end at any time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from redfuser.machine.threads import use_threads
from redfuser.records import decode, encode, parse, to_text
from redfuser.tile.ir import Schedule
from redfuser.tuning.bundle import BundledCandidate
from redfuser.tuning.finals import Comparison, compare
from redfuser.tuning.record import ScheduleRecord
from redfuser.tuning.search import BATCH, TRIAL, Effort, Search, Trial
from redfuser.tuning.spaces.space import Candidate, Survey
from redfuser.tuning.task import Task
from redfuser.tuning.timing.job import Failure, Job, Plan, Timing
from redfuser.tuning.timing.runner import LocalRunner
from redfuser.tuning.tuner import TrialRecord, rank, rating
from tests.bench.kernels import WORKLOADS, require_known

NAMES = ("attention-512", "decode-4096", "softmax", "layer-norm", "routing-64-8")
#: So many of the fastest enter the last round; its turns are held in so many processes.
ENTRANTS, PROCESSES = 12, 4
LAST = Plan(21, 10.0)


class OutOfTimeError(Exception):
    """The time given is over; what was timed is kept."""


@dataclass(frozen=True)
class Built:
    """Candidates of one workload as libraries; those that can't be built have none."""

    candidates: tuple[BundledCandidate, ...]


@dataclass(frozen=True)
class Result:
    """Microseconds of the best of all candidates and of each choice, and the schedules that these are."""

    candidates: int
    noise: float
    us: Mapping[str, float]
    schedules: Mapping[str, ScheduleRecord]

    def __str__(self) -> str:
        least = self.us["best"]
        return "  ".join(f"{name} {us:9.1f} us ({us / least:.2f})" for name, us in self.us.items())


@dataclass
class Case:
    """One workload: its space, its libraries, and what was found so far in ``folder``."""

    name: str
    folder: Path
    task: Task
    survey: Survey
    ranked: list[Candidate]
    modelled: Schedule
    end: float
    jobs: dict[Schedule, Job] = field(default_factory=dict)

    def build(self) -> None:
        """Compile what isn't compiled yet."""
        from redfuser.targets import CpuTarget, load_target
        from redfuser.tuning.timing.builder import Builder

        described = self.folder / "built.json"
        if not described.is_file():
            target = load_target("cpu")
            assert isinstance(target, CpuTarget)
            builder = Builder(target, self.folder)
            made = [(ScheduleRecord.of(c.schedule), builder.build(c.program)) for c in self.survey.candidates]
            built = Built(tuple(BundledCandidate(schedule, job) for schedule, job in made if isinstance(job, Job)))
            described.write_text(to_text(encode(built)), encoding="utf-8")
        found = decode(Built, parse(described.read_text(encoding="utf-8")))
        self.jobs = {each.schedule.schedule(): each.job for each in found.candidates}

    def job(self, candidate: Candidate) -> Job | Failure:
        """The library of a candidate."""
        return self.jobs.get(sorted_names(candidate.schedule)) or Failure("can't be built")

    def run(self, runner: LocalRunner) -> Result:
        """Time everything.

        Raises:
            OutOfTimeError: before the end.
        """
        place = self.folder / "result.json"
        if not place.is_file():
            tuned, scores = self._tuned(runner), self._exhaustive(runner)
            result = self._last_round(runner, tuned, scores)
            place.write_text(to_text(encode(result)), encoding="utf-8")
        return decode(Result, parse(place.read_text(encoding="utf-8")))

    def _tuned(self, runner: LocalRunner) -> Schedule:
        """What the tuner's own search chooses."""
        place = self.folder / "tuned.json"
        if not place.is_file():
            effort = Effort(max(self.end - time.monotonic(), 0.0))

            def note(trial: Trial, best: float | None) -> None:
                self._append("search", trial)

            winner = Search(self.ranked, self.job, runner, effort, done=list(self._trials("search")), record=note).run()
            if winner is None or not winner.complete:
                raise OutOfTimeError
            place.write_text(to_text(encode(ScheduleRecord.of(winner.candidate.schedule))), encoding="utf-8")
        return decode(ScheduleRecord, parse(place.read_text(encoding="utf-8"))).schedule()

    def _exhaustive(self, runner: LocalRunner) -> dict[Schedule, float]:
        """Each candidate's time relative to the untuned one's in the same batch."""
        scores = {sorted_names(t.schedule): t.us for t in self._trials("all") if t.us is not None}
        usual, *others = self.survey.candidates
        reference = self.job(usual)
        assert isinstance(reference, Job)
        left = [c for c in others if sorted_names(c.schedule) not in scores and isinstance(self.job(c), Job)]
        for start in range(0, len(left), BATCH - 1):
            self._check_time()
            batch = left[start : start + BATCH - 1]
            jobs = [reference, *(job for c in batch if isinstance(job := self.job(c), Job))]
            first, *results = runner.run(jobs, TRIAL)
            assert isinstance(first, Timing)
            for candidate, result in zip(batch, results, strict=True):
                score = ratio_of_turns(result, first) if isinstance(result, Timing) else None
                self._append("all", Trial(candidate.schedule, score))
                if score is not None:
                    scores[sorted_names(candidate.schedule)] = score
        return {**scores, sorted_names(usual.schedule): 1.0}

    def _last_round(self, runner: LocalRunner, tuned: Schedule, scores: Mapping[Schedule, float]) -> Result:
        self._check_time()
        usual = sorted_names(self.survey.candidates[0].schedule)
        choices = {"tuned": tuned, "default": usual, "model": sorted_names(self.modelled)}
        entrants = list(dict.fromkeys([*choices.values(), *sorted(scores, key=lambda s: scores[s])[:ENTRANTS]]))
        compared: Comparison[Schedule] | None = None
        for _ in range(PROCESSES):
            runner.close()
            results = runner.run([self.jobs[schedule] for schedule in entrants], LAST)
            compared = compare(
                [(s, r) for s, r in zip(entrants, results, strict=True) if isinstance(r, Timing)], compared
            )
        assert compared is not None
        best = min(compared.middles, key=lambda schedule: compared.middles[schedule])
        named = {"best": best, **choices}
        us = compared.scores(compared.timing(entrants[0]).median_us)
        return Result(
            len(self.survey.candidates),
            round(compared.ratios[best].noise, 4),
            {name: round(us[schedule], 2) for name, schedule in named.items()},
            {name: ScheduleRecord.of(schedule) for name, schedule in named.items()},
        )

    def _check_time(self) -> None:
        if time.monotonic() > self.end:
            raise OutOfTimeError

    def _trials(self, kind: str) -> Iterator[Trial]:
        place = self.folder / f"{kind}.jsonl"
        for line in place.read_text(encoding="utf-8").splitlines() if place.is_file() else ():
            trial = decode(TrialRecord, parse(line)).trial()
            known = {sorted_names(c.schedule): c.schedule for c in self.survey.candidates}
            yield Trial(known[sorted_names(trial.schedule)], trial.us, trial.noise, trial.failure)

    def _append(self, kind: str, trial: Trial) -> None:
        text = to_text(encode(TrialRecord.of(trial))).replace("\n", " ")
        with (self.folder / f"{kind}.jsonl").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")


def ratio_of_turns(ours: Timing, theirs: Timing) -> float:
    """The median, over the turns, of one time by the other."""
    return median(a / b for a, b in zip(ours.seconds, theirs.seconds, strict=True))


def sorted_names(schedule: Schedule) -> Schedule:
    """A schedule as its record gives it back."""
    return ScheduleRecord.of(schedule).schedule()


def prepare(name: str, folder: Path, seconds: float) -> Case:
    """Take a workload apart; nothing is compiled or timed yet."""
    from redfuser.algebra import derive
    from redfuser.driver import analyze
    from redfuser.options import CompileOptions
    from redfuser.progress import Silent
    from redfuser.stages.fusion import with_precision
    from redfuser.targets import CpuTarget, load_target
    from redfuser.tuning.costs.cpu import CpuModel
    from redfuser.tuning.costs.rates import CpuRates
    from redfuser.tuning.spaces import space_of

    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.onnx"
        path.write_bytes(WORKLOADS[name].model().SerializeToString())
        ((cascade, kernel),) = analyze(path, CompileOptions(target), Silent()).distinct().items()
    precise = with_precision(cascade)
    derivation = derive(precise, "exact")
    survey = space_of(precise, derivation, target).survey()
    model = CpuModel(target, CpuRates.nominal(target))
    ranked = rank(survey, model)
    modelled = min(survey.candidates, key=lambda candidate: rating(model.cost(candidate.program))).schedule
    (folder / name).mkdir(parents=True, exist_ok=True)
    task = Task(kernel, cascade, precise, derivation)
    return Case(name, folder / name, task, survey, ranked, modelled, time.monotonic() + seconds)


def main() -> None:
    """Print one line a workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(WORKLOADS)}; without any, {', '.join(NAMES)}")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "redfuser-tuning")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=3600.0, help="to time each workload for, at most")
    parser.add_argument("--build", action="store_true", help="compile the candidates, and end")
    arguments = parser.parse_args()
    require_known(parser, arguments.names)
    use_threads(arguments.threads)
    cases = [prepare(name, arguments.folder, arguments.seconds) for name in arguments.names or NAMES]
    for case in cases:
        case.build()
    runner = LocalRunner(arguments.threads)
    try:
        for case in cases if not arguments.build else ():
            case.end = time.monotonic() + arguments.seconds
            try:
                print(f"{case.name:14} {len(case.survey.candidates):4} candidates  {case.run(runner)}", flush=True)
            except OutOfTimeError:
                print(f"{case.name:14} not finished: call again", flush=True)
    finally:
        runner.close()


if __name__ == "__main__":
    main()
