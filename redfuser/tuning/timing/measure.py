"""Times compiled kernels that take turns. Needs apache-tvm and NumPy alone: bundles carry a copy of this file.

As a script beside a ``bundle.json`` it times every job in it and writes ``results.json``:
``python measure.py [THREADS]``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: A kernel as a function from a number of calls to the seconds of one.
Call = Callable[[int], float]
Answer = Callable[[dict[str, Any]], None]
Open = Callable[[str], Any]


def serve(
    jobs: Sequence[Mapping[str, Any]],
    plan: Mapping[str, Any],
    answer: Answer,
    open: Open,
    device: Any,
    strict: bool = False,
) -> None:
    """Load, warm and time kernels.

    Args:
        jobs: data of :class:`redfuser.tuning.timing.job.Job`.
        plan: data of :class:`redfuser.tuning.timing.job.Plan`.
        answer: is given the events that :mod:`redfuser.tuning.timing.worker` describes.
        open: loads a library.
        device: where the kernels run.
        strict: whether a kernel that fails ends everything, instead of being answered for.
    """
    arrays = Arrays(plan["seed"], device)
    calls: dict[int, tuple[Call, int]] = {}
    seconds: dict[int, list[float]] = {}
    for number, job in enumerate(jobs):
        answer({"begin": number})
        try:
            call = prepare(job, open(job["library"]), arrays, device)
            calls[number] = (call, max(int(plan["milliseconds"] * 1e-3 / max(call(1), 1e-9)), 1))
        except Exception as error:
            if strict:
                raise
            answer({"job": number, "failure": " ".join(str(error).split())[-300:] or type(error).__name__})
    for _ in range(plan["rounds"]):
        for number, (call, repeats) in calls.items():
            answer({"begin": number})
            seconds.setdefault(number, []).append(call(repeats))
    for number, taken in seconds.items():
        answer({"job": number, "seconds": taken})
    answer({"done": True})


def prepare(job: Mapping[str, Any], module: Any, arrays: Arrays, device: Any) -> Call:
    """The job's kernel with its arguments in place."""
    inputs = len(job["arguments"]) - job["outputs"]
    arguments = [arrays.get(argument, place, place >= inputs) for place, argument in enumerate(job["arguments"])]

    if job["machine"]:
        from tvm import relax

        module = relax.VirtualMachine(module, device)

    def call(repeats: int) -> float:
        timed = module.time_evaluator(job["function"], device, number=repeats, repeat=1)
        return float(timed(*arguments).results[0])

    return call


class Arrays:
    """Arguments for kernels; those of equal shape and type in one place are one array."""

    def __init__(self, seed: int, device: Any) -> None:
        self.seed, self.device = seed, device
        self.known: dict[tuple[str, int], Any] = {}

    def get(self, argument: Mapping[str, Any], place: int, written: bool) -> Any:
        """An array for the argument in a place: zeros where it is written, else of the usual inputs."""
        import numpy as np
        from tvm.runtime import tensor

        key = (f"{argument['dtype']}{list(argument['shape'])}", place)
        if key not in self.known:
            dtype, shape = numpy_type(argument["dtype"]), tuple(argument["shape"])
            random = np.random.default_rng((self.seed, place))
            value = np.zeros(shape, dtype) if written else ordinary(argument["dtype"], shape, random).astype(dtype)
            self.known[key] = tensor(value, device=self.device)
        return self.known[key]


def ordinary(dtype: str, shape: tuple[int, ...], random: Any) -> Any:
    """Normal numbers; of integers, mostly ones, as masks have them; of truth values, mostly true."""
    import numpy as np

    if dtype == "bool" or "int" in dtype:
        return random.random(shape) < 0.7
    return random.standard_normal(shape, dtype=np.float32)


def numpy_type(name: str) -> Any:
    """NumPy's type of that name, or one of ml_dtypes."""
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def main() -> None:
    """Time the bundle that this file lies in."""
    os.environ["TVM_NUM_THREADS"] = sys.argv[1] if len(sys.argv) > 1 else str(os.cpu_count())
    os.environ.setdefault("TVM_BIND_THREADS", "0")  # as in a loaded artifact
    import tvm

    folder = Path(__file__).resolve().parent
    bundle = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    results: dict[str, list[dict[str, Any]]] = {}
    for task in bundle["tasks"]:
        events: list[dict[str, Any]] = []
        jobs = [item["job"] for item in task["candidates"]]
        serve(jobs, bundle["plan"], events.append, lambda name: tvm.runtime.load_module(str(folder / name)), tvm.cpu())
        answered = {event["job"]: event for event in events if "job" in event}
        results[task["name"]] = [answered.get(number, {"failure": "no answer"}) for number in range(len(jobs))]
        print(f"{task['name']}: {len(answered)} of {len(jobs)} candidates timed", file=sys.stderr)
    data = {"schema": bundle["schema"], "bundle": bundle["digest"], "results": results}
    (folder / "results.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
