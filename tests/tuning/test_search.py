"""The search on made-up times: what it times, when it ends, what wins."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tuning.search import BATCH, FIRST, LEAST_SITTINGS, Effort, Search, Trial, Winner, distance
from redfuser.tuning.spaces.space import Candidate
from redfuser.tuning.timing.job import Failure, Job, Plan, Result, Timing


def candidate(tile: int, segments: int = 1) -> Candidate:
    """One of a family with two choices."""
    schedule = Schedule("single-segment" if segments == 1 else "multi-segment", (("i", tile),), segments)
    return Candidate(schedule, TileProgram("toy", (), (), (), (), schedule))


class Machine:
    """A runner whose times are given by the tile; ``drift`` makes each call slower than the one before."""

    def __init__(self, us: Callable[[int], float], drift: float = 1.0, dies: frozenset[int] = frozenset()) -> None:
        self.us, self.drift, self.dies = us, drift, dies
        self.speed = 1.0
        self.ran: list[list[int]] = []
        self.processes = 1

    def run(self, jobs: Sequence[Job], plan: Plan) -> list[Result]:
        self.speed *= self.drift
        tiles = [int(job.function) for job in jobs]
        self.ran.append(tiles)
        return [
            Failure("died") if tile in self.dies else Timing((self.us(tile) * 1e-6 * self.speed,) * plan.rounds)
            for tile in tiles
        ]

    def close(self) -> None:
        """What runs next does so in another process."""
        self.processes += 1


def build(item: Candidate) -> Job | Failure:
    """A job that is named after the tile."""
    return Job("", str(dict(item.schedule.tiles)["i"]), (), 0)


def search(machine: Machine, tiles: Sequence[int], trials: int = 64, **more: object) -> Winner | None:
    """Run one with time enough."""
    return Search([candidate(t) for t in tiles], build, machine, Effort(60, trials), **more).run()  # type: ignore[arg-type]


def tile(winner: Winner | None) -> int:
    """The winner's tile."""
    assert winner is not None
    return dict(winner.candidate.schedule.tiles)["i"]


def test_the_fastest_wins() -> None:
    assert tile(search(Machine(lambda t: abs(t - 5) + 10), range(1, 30))) == 5


def test_of_equals_the_one_ranked_first_wins() -> None:
    assert tile(search(Machine(lambda t: 100 - (t % 2)), [4, 3, 2, 1])) == 4
    assert tile(search(Machine(lambda t: 100 - 5 * (t % 2)), [4, 3, 2, 1])) == 3


def test_the_order_that_breaks_ties_may_be_another_than_the_ranking() -> None:
    preferred = [candidate(t) for t in (2, 3, 1, 4)]
    assert tile(search(Machine(lambda t: 100.0), [4, 3, 2, 1], preferred=preferred)) == 2
    assert tile(search(Machine(lambda t: 90.0 if t == 4 else 100.0), [4, 3, 2, 1], preferred=preferred)) == 4


def test_a_process_that_favours_one_does_not_decide() -> None:
    """In one process of three the second is a fifth faster, as arrays that lie well make it."""
    machine = Machine(lambda t: 80.0 if t == 2 and machine.processes % 3 == 0 else 100.0)
    assert tile(search(machine, [1, 2])) == 1 and machine.processes > LEAST_SITTINGS


def test_a_lucky_trial_keeps_nobody_out_of_the_final() -> None:
    """The last candidate's trial is a quarter faster than it is in any final."""
    machine = Machine(lambda t: 75.0 if t == 7 and machine.processes == 1 else 100.0)
    assert tile(search(machine, range(1, 8))) == 1
    assert set(range(1, FIRST + 1)) < set(machine.ran[-1])


def test_a_machine_that_grows_slower_changes_no_comparison() -> None:
    slower = Machine(lambda t: 100 + 4 * abs(t - 20), drift=1.5)
    assert tile(search(slower, range(1, 25))) == 20


def test_no_more_trials_than_allowed_and_one_batch_without_time() -> None:
    machine = Machine(lambda t: 100 - t)
    winner = search(machine, range(1, 90), trials=20)
    assert winner is not None and winner.trials == 20
    hasty = Search([candidate(t) for t in range(1, 90)], build, Machine(lambda t: 100 - t), Effort(0.0)).run()
    assert hasty is not None and hasty.trials == BATCH and not hasty.complete


def test_the_search_ends_early_where_the_winner_has_no_neighbour_left() -> None:
    alone = [candidate(t, t) for t in range(1, 200)]
    winner = Search(alone, build, Machine(lambda t: 100.0), Effort(60)).run()
    assert winner is not None and winner.trials == 32 and winner.complete


def test_the_search_climbs_from_neighbour_to_neighbour() -> None:
    """The best is two choices away from the best of those ranked first, by way of a better one."""
    ranked = [candidate(t, t) for t in range(1, 30)] + [candidate(8, 2), candidate(99, 2)]

    def build(item: Candidate) -> Job:
        return Job("", str(1000 * dict(item.schedule.tiles)["i"] + item.schedule.segments), (), 0)

    times = {8008: 90.0, 8002: 70.0, 99002: 50.0}
    winner = Search(ranked, build, Machine(lambda job: times.get(job, 100.0)), Effort(60, 16)).run()
    assert tile(winner) == 99 and winner is not None and winner.trials == 10


def test_neighbours_of_the_best_are_tried_in_the_second_half() -> None:
    ranked = [candidate(t, s) for s in (1, 2) for t in range(1, 40)]
    machine = Machine(lambda t: 100 - t)
    winner = Search(ranked, build, machine, Effort(60, 16)).run()
    timed = {n for batch in machine.ran for n in batch}
    assert winner is not None and timed <= set(range(1, 17))
    assert distance(candidate(3).schedule, candidate(4).schedule) == 1
    assert distance(candidate(3).schedule, candidate(4, 2).schedule) == 2


def test_a_death_or_a_failed_build_costs_that_candidate_alone() -> None:
    def fragile(item: Candidate) -> Job | Failure:
        return Failure("no registers left") if dict(item.schedule.tiles)["i"] == 2 else build(item)

    machine = Machine(lambda t: float(t), dies=frozenset({1}))
    winner = Search([candidate(t) for t in (1, 2, 3, 4)], fragile, machine, Effort(60)).run()
    assert tile(winner) == 3 and winner is not None
    assert {trial.failure for trial in winner.failures} == {"died", "no registers left"}


def test_wrong_numbers_pass_the_prize_to_the_next() -> None:
    def accept(item: Candidate) -> str:
        return "wrong" if dict(item.schedule.tiles)["i"] < 3 else ""

    assert tile(search(Machine(lambda t: 10.0 * t), [1, 2, 3, 4], accept=accept)) == 3
    assert search(Machine(lambda t: 10.0 * t), [1, 2], accept=accept) is None


def test_an_interrupted_search_times_nothing_twice() -> None:
    trials: list[Trial] = []
    machine = Machine(lambda t: 100 - t)
    first = search(machine, range(1, 20), record=lambda trial, best: trials.append(trial))
    again = Machine(lambda t: 100 - t)
    second = search(again, range(1, 20), done=trials)
    assert first is not None and second is not None and second.candidate == first.candidate
    assert len(again.ran) == LEAST_SITTINGS and all(turns == again.ran[0] for turns in again.ran)


class Noisy(Machine):
    """A machine whose every turn is off by up to a share, differently for every seed."""

    def __init__(self, us: Callable[[int], float], share: float, seed: int) -> None:
        super().__init__(us)
        self.share, self.random = share, random.Random(seed)

    def run(self, jobs: Sequence[Job], plan: Plan) -> list[Result]:
        exact = super().run(jobs, plan)
        return [
            Timing(tuple(s * self.random.uniform(1 - self.share, 1 + self.share) for s in result.seconds))
            if isinstance(result, Timing)
            else result
            for result in exact
        ]


@pytest.mark.parametrize("share", [0.02, 0.05])
def test_noise_changes_no_choice(share: float) -> None:
    """Many that are equal, a better one, and slower ones: what wins is the better one, whatever the noise."""

    def us(tile: int) -> float:
        return 80.0 if tile == 17 else 100.0 + tile % 3

    assert {tile(search(Noisy(us, share, seed), range(1, 40))) for seed in range(12)} == {17}


@pytest.mark.parametrize("share", [0.01, 0.02])
def test_of_many_equals_noise_leaves_the_one_ranked_first(share: float) -> None:
    assert {tile(search(Noisy(lambda t: 100.0, share, seed), range(1, 40))) for seed in range(12)} == {1}
