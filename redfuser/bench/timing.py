"""Fair timing of several sides on one machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

PAUSE_SECONDS, WARM_CALLS, CALLS = 0.25, 3, 6

#: No further warm call, no further timed call, after so many seconds of them: long calls need fewer.
WARM_SECONDS, SECONDS = 0.3, 1.5


def interleaved(
    sides: Mapping[str, Callable[[], object]],
    rounds: int,
    step: Callable[[int, int], None] = lambda done, total: None,
    wait: Callable[[], None] = lambda: None,
    burst: int = 1,
) -> dict[str, list[float]]:
    """Seconds of every call by side, the sides taking turns in blocks of calls.

    Each block begins with a pause and warm calls: thread pools spin for a while after work and would steal the
    next side's cores.

    Args:
        step: told how many of all blocks are done.
        wait: until the calls made so far are finished, where they only start something.
        burst: calls from one wait to the next, which are timed together; each counts as their mean.
    """
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(rounds):
        for number, (side, run) in enumerate(sides.items()):
            time.sleep(PAUSE_SECONDS)
            _timed(run, WARM_CALLS, WARM_SECONDS)
            wait()
            taken[side] += [s / burst for s in _timed(partial(_burst, run, wait, burst), CALLS, SECONDS)]
            step(turn * len(sides) + number + 1, rounds * len(sides))
    return taken


def _burst(run: Callable[[], object], wait: Callable[[], None], calls: int) -> None:
    for _ in range(calls):
        run()
    wait()


def _timed(run: Callable[[], object], calls: int, limit: float) -> list[float]:
    """Seconds of each call: one at least, and no more once they took ``limit`` together."""
    taken: list[float] = []
    while not taken or (len(taken) < calls and sum(taken) < limit):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return taken
