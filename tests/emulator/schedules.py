"""Schedules: the order in which a device might run threads, and the moments at which asynchronous copies arrive.

One schedule isn't enough: a missing wait for data shows when loads arrive late; a missing barrier between warpgroups
shows when one of them runs as far ahead as the barriers allow; a dependence between blocks shows when they run in
reverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Arrival = Literal["early", "late", "random", "newest"]
Order = Literal["round-robin", "random", "lowest", "highest"]


@dataclass(frozen=True)
class Schedule:
    """One order of events.

    Args:
        arrival: copies arrive at issue, or when nothing else can run: the oldest, any, or the newest first.
        order: which of the threads that can run goes next: each in turn, any, the lowest or the highest number.
        reversed_blocks: run the grid's last block first.
        seed: of the random choices.
    """

    arrival: Arrival = "late"
    order: Order = "round-robin"
    reversed_blocks: bool = False
    seed: int = 0

    @property
    def codes(self) -> tuple[int, int, int, int]:
        """The runtime's options."""
        return (
            get_args(Arrival).index(self.arrival),
            get_args(Order).index(self.order),
            int(self.reversed_blocks),
            self.seed,
        )

    def __str__(self) -> str:
        blocks = ", blocks reversed" if self.reversed_blocks else ""
        return f"{self.arrival} arrivals, {self.order} order{blocks}, seed {self.seed}"


SCHEDULES = (
    Schedule(),
    Schedule("newest", "lowest", reversed_blocks=True),
    Schedule("newest", "highest"),
    Schedule("early", "lowest"),
    Schedule("early", "highest", reversed_blocks=True),
    Schedule("random", "random", seed=1),
    Schedule("random", "random", reversed_blocks=True, seed=2),
)
