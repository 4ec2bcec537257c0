"""Who wins on made-up times: the rule, and when more turns are needed."""

from __future__ import annotations

import random

import pytest

from redfuser.tuning.finals import CLOSE, Comparison, compare
from redfuser.tuning.search import SITTINGS
from redfuser.tuning.timing.job import Timing


def exact(**us: float) -> Comparison[str]:
    """Candidates that always take the same time."""
    return compare([(name, Timing((time,) * 15)) for name, time in us.items()])


def test_of_times_that_are_close_the_one_ranked_first_wins() -> None:
    assert exact(a=1.02, b=1.0).winner == "a"
    assert exact(a=1.05, b=1.0).winner == "b"
    assert exact(a=1.2, b=1.039, c=1.0, d=1.01).winner == "b"


def test_of_kernels_that_take_a_microsecond_a_tenth_of_one_decides_nothing() -> None:
    def winner(*us: float) -> str:
        return compare([(name, Timing((time * 1e-6,) * 15)) for name, time in zip("ab", us, strict=True)]).winner

    assert (winner(1.49, 1.42), winner(1.6, 1.42), winner(10.5, 10.0)) == ("a", "b", "b")


def test_what_slows_everything_down_for_some_turns_changes_nothing() -> None:
    slow = (1.0, 1.0, 3.0, 3.0, 1.0)
    found = compare([("a", Timing(tuple(1.1 * s for s in slow))), ("b", Timing(slow))])
    assert found.winner == "b" and found.settled
    assert found.ratios["b"].noise == pytest.approx(0) and found.middles["b"] == pytest.approx(1 / 1.1)
    assert found.scores(110.0)["b"] == pytest.approx(100)


@pytest.mark.parametrize(("close", "settled"), [(0.0, True), (0.01, True), (CLOSE, False), (0.06, True)])
def test_only_noise_that_could_move_one_across_the_limit_needs_more_turns(close: float, settled: bool) -> None:
    generator = random.Random(0)
    noisy = [("a", 1 + close), ("b", 1.0), ("c", 1 + CLOSE)]
    turns = [(n, Timing(tuple(us * generator.uniform(0.99, 1.01) for _ in range(60)))) for n, us in noisy]
    assert compare(turns).settled is settled


def test_turns_of_one_sitting_are_added_to_those_before() -> None:
    first = compare([("a", Timing((1.0, 2.0))), ("b", Timing((2.0, 4.0)))])
    both = compare([("a", Timing((4.0,))), ("b", Timing((8.0,)))], first)
    assert both.turns == {"a": (1.0, 2.0, 4.0), "b": (2.0, 4.0, 8.0)} and both.timing("b").median_us == 4e6


@pytest.mark.parametrize("share", [0.005, 0.01])
def test_sittings_until_it_is_settled_make_two_comparisons_agree(share: float) -> None:
    """Eight candidates, each a little slower than the next: of a hundred runs hardly any differs."""
    generator = random.Random(1)
    answers = [_winner(generator, share) for _ in range(100)]
    assert max(answers.count(answer) for answer in set(answers)) >= 95


def _winner(generator: random.Random, share: float) -> int:
    """Of one run with noise."""
    found: Comparison[int] | None = None
    for _ in range(SITTINGS):
        turns = {n: [generator.uniform(1 - share, 1 + share) for _ in range(15)] for n in range(8)}
        found = compare([(n, Timing(tuple(t * (1.077 - 0.011 * n) for t in own))) for n, own in turns.items()], found)
        if found.settled:
            break
    assert found is not None
    return found.winner
