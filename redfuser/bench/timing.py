"""Fair timing of several sides on one machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

PAUSE_SECONDS, WARM_CALLS, CALLS = 0.25, 3, 6


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
            for _ in range(WARM_CALLS):
                run()
            wait()
            for _ in range(CALLS):
                start = time.perf_counter()
                for _ in range(burst):
                    run()
                wait()
                taken[side].append((time.perf_counter() - start) / burst)
            step(turn * len(sides) + number + 1, rounds * len(sides))
    return taken
