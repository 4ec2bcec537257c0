"""Who wins: candidates that took turns, compared turn by turn, and one chosen by rule where the times don't decide.

A candidate's *ratio* is the median, over the turns, of its time by the time that the first candidate took in the same
turn: what slows the machine down for a while slows both. Of those within ``CLOSE`` of the fastest the one ranked first
wins, so that two tunings choose the same; as long as noise could move one that matters across that limit, the
comparison isn't *settled* and deserves more turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import Generic, TypeVar

from redfuser.tuning.timing.job import Timing

#: Times that differ by less are equal: less changes from one run of a process to the next.
CLOSE = 0.04
#: So do microseconds that are fewer than these, of kernels that take few themselves.
CLOSE_US = 0.1
#: Standard errors of a median by the half range of the middle half of normally distributed values; how many count.
ERRORS_BY_SPREAD, ERRORS = 1.86, 2.0

T = TypeVar("T")


@dataclass(frozen=True)
class Comparison(Generic[T]):
    """Candidates, ranked, with the seconds each took in every turn; the first is what ratios are by."""

    turns: Mapping[T, tuple[float, ...]]

    @cached_property
    def ratios(self) -> dict[T, Timing]:
        """By candidate, its time by the first one's, turn by turn."""
        first = next(iter(self.turns.values()))
        return {c: Timing(tuple(a / b for a, b in zip(own, first, strict=True))) for c, own in self.turns.items()}

    @cached_property
    def middles(self) -> dict[T, float]:
        """The medians of the ratios."""
        return {candidate: median(ratio.seconds) for candidate, ratio in self.ratios.items()}

    @property
    def limit(self) -> float:
        """The largest ratio that counts as equal to the least."""
        least = min(self.middles.values())
        return least + max(CLOSE * least, CLOSE_US / self.timing(next(iter(self.turns))).median_us)

    @property
    def winner(self) -> T:
        """The one ranked first among those that count as fastest."""
        return next(candidate for candidate, middle in self.middles.items() if middle <= self.limit)

    @property
    def settled(self) -> bool:
        """Whether noise leaves the winner as it is: of those ranked ahead of the fastest, none is near the limit."""
        fastest = min(self.middles, key=lambda candidate: self.middles[candidate])
        for candidate, middle in self.middles.items():
            if candidate == fastest:
                return True
            if abs(middle - self.limit) <= ERRORS * (self._error(candidate) + self._error(fastest)):
                return False
            if middle < self.limit:
                return True
        return True

    def _error(self, candidate: T) -> float:
        """Standard error of a median ratio."""
        ratio = self.ratios[candidate]
        return ERRORS_BY_SPREAD * ratio.noise * self.middles[candidate] / len(ratio.seconds) ** 0.5

    def timing(self, candidate: T) -> Timing:
        """The seconds of one."""
        return Timing(self.turns[candidate])

    def scores(self, first_us: float) -> dict[T, float]:
        """Microseconds of each, if the first took so many."""
        return {candidate: middle * first_us for candidate, middle in self.middles.items()}


def compare(ranked: Sequence[tuple[T, Timing]], before: Comparison[T] | None = None) -> Comparison[T]:
    """The comparison of timings made together, added to what the same candidates took before."""
    earlier = before.turns if before is not None else {}
    return Comparison({candidate: (*earlier.get(candidate, ()), *timing.seconds) for candidate, timing in ranked})
