"""The process that times kernels, so that one that crashes takes nothing else with it.

Started as ``python -m redfuser.tuning.worker``. Reads one request a line: ``{"jobs": [Job…], "plan": Plan}``. Answers
with one line for each event: ``{"ready": true}`` once, when it has started; ``{"begin": n}`` before job n runs, so
that its death can be blamed on it; ``{"job": n, "seconds": […]}`` or ``{"job": n, "failure": "…"}``;
``{"done": true}`` at the end of a request.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from redfuser.records import decode
from redfuser.tuning.job import Argument, Job, Plan

Call = Callable[[int], float]


def main() -> None:
    """Serve requests until stdin ends."""
    # What a library prints must not mix with the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    import tvm  # noqa: F401

    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        jobs = decode(tuple[Job, ...], request["jobs"])
        serve(jobs, decode(Plan, request["plan"]), lambda event: print(json.dumps(event), file=answers, flush=True))


def serve(jobs: Sequence[Job], plan: Plan, answer: Callable[[dict[str, Any]], None]) -> None:
    """Load, warm and time kernels that take turns."""
    arrays = Arrays(plan.seed)
    calls: dict[int, tuple[Call, int]] = {}
    seconds: dict[int, list[float]] = {}
    for number, job in enumerate(jobs):
        answer({"begin": number})
        try:
            call = load(job, arrays)
            calls[number] = (call, max(int(plan.milliseconds * 1e-3 / max(call(1), 1e-9)), 1))
        except Exception as error:
            answer({"job": number, "failure": " ".join(str(error).split())[-300:] or type(error).__name__})
    for _ in range(plan.rounds):
        for number, (call, repeats) in calls.items():
            answer({"begin": number})
            seconds.setdefault(number, []).append(call(repeats))
    for number, taken in seconds.items():
        answer({"job": number, "seconds": taken})
    answer({"done": True})


def load(job: Job, arrays: Arrays) -> Call:
    """The kernel as a function from a number of calls to the seconds of one."""
    import tvm

    module = tvm.runtime.load_module(job.library)
    inputs = len(job.arguments) - job.outputs
    arguments = [arrays.get(argument, place, place >= inputs) for place, argument in enumerate(job.arguments)]

    def call(repeats: int) -> float:
        timed = module.time_evaluator(job.function, tvm.cpu(), number=repeats, repeat=1)
        return float(timed(*arguments).results[0])

    return call


class Arrays:
    """Arguments for kernels; those of equal shape and type in one place are one array."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.known: dict[tuple[Argument, int], Any] = {}

    def get(self, argument: Argument, place: int, written: bool) -> Any:
        """An array for the argument in a place: zeros where it is written, else of the usual inputs."""
        import numpy as np
        from tvm.runtime import tensor

        from redfuser.evaluate import numpy_dtype

        key = (argument, place)
        if key not in self.known:
            random = np.random.default_rng((self.seed, place))
            value = ordinary(argument, random) if not written else np.zeros(argument.shape, numpy_dtype(argument.dtype))
            self.known[key] = tensor(value)
        return self.known[key]


def ordinary(argument: Argument, random: Any) -> Any:
    """Normal numbers; of integers, mostly ones, as masks have them; of truth values, mostly true."""
    import numpy as np

    from redfuser.evaluate import numpy_dtype

    dtype = numpy_dtype(argument.dtype)
    if argument.dtype == "bool" or "int" in argument.dtype:
        return (random.random(argument.shape) < 0.7).astype(dtype)
    return random.standard_normal(argument.shape, dtype=np.float32).astype(dtype)


if __name__ == "__main__":
    main()
