"""Times compiled kernels that take turns. Needs apache-tvm and NumPy alone: bundles carry a copy of this file.

As a script beside a ``bundle.json`` it times every job in it and writes ``results.json``:
``python measure.py [THREADS]``.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

#: A kernel as a function from a number of calls and the turn they are made in to the seconds of one.
Call = Callable[[int, int], float]
Answer = Callable[[dict[str, Any]], None]
Open = Callable[[str], Any]

#: Bytes that the beginnings of arrays are multiples of; and of a page, in which they move from turn to turn.
ALIGNMENT, PAGE = 64, 4096
#: DLPack's number of this machine's memory.
HOST = 1


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
            calls[number] = (call, max(int(plan["milliseconds"] * 1e-3 / max(call(1, 0), 1e-9)), 1))
        except Exception as error:
            if strict:
                raise
            answer({"job": number, "failure": " ".join(str(error).split())[-300:] or type(error).__name__})
    for turn in range(plan["rounds"]):
        for number, (call, repeats) in rotated(list(calls.items()), turn):
            answer({"begin": number})
            seconds.setdefault(number, []).append(call(repeats, turn))
    for number, taken in seconds.items():
        answer({"job": number, "seconds": taken})
    answer({"done": True})


def rotated(items: list[Any], places: int) -> list[Any]:
    """So that each comes first, and after each other's neighbour, as often as the others."""
    begin = places % max(len(items), 1)
    return items[begin:] + items[:begin]


def prepare(job: Mapping[str, Any], module: Any, arrays: Arrays, device: Any) -> Call:
    """The job's kernel with its arguments in place."""
    inputs = len(job["arguments"]) - job["outputs"]

    if job["machine"]:
        from tvm import relax

        module = relax.VirtualMachine(module, device)

    def call(repeats: int, turn: int) -> float:
        arguments = [arrays.get(each, place, place >= inputs, turn) for place, each in enumerate(job["arguments"])]
        timed = module.time_evaluator(job["function"], device, number=repeats, repeat=1)
        return float(timed(*arguments).results[0])

    return call


class Arrays:
    """Arguments for kernels; those of equal shape and type in one place are one array.

    Where arrays begin within their pages moves from turn to turn, in every run the same way: loads wait for stores to
    equal places of other pages, and no kernel should win or lose by where its arrays happened to lie.
    """

    def __init__(self, seed: int, device: Any) -> None:
        self.seed, self.device = seed, device
        self.known: dict[tuple[str, int], Any] = {}

    def get(self, argument: Mapping[str, Any], place: int, written: bool, turn: int) -> Any:
        """An array for the argument in a place: zeros where it is written, else of the usual inputs."""
        from tvm.runtime import from_dlpack, tensor

        dtype, shape = numpy_type(argument["dtype"]), tuple(argument["shape"])
        local = self.device.dlpack_device_type() == HOST
        key = (f"{argument['dtype']}{list(shape)}", place)
        if key not in self.known:
            values = self._values(argument["dtype"], shape, place, written).astype(dtype)
            # Memory of another machine can't be cut to pieces.
            self.known[key] = roomy(values) if local else tensor(values, device=self.device)
        if not local:
            return self.known[key]
        begin = ALIGNMENT * int(self._random(place, turn).integers(PAGE // ALIGNMENT))
        view = self.known[key][begin : begin + math.prod(shape) * dtype.itemsize]
        return from_dlpack(view)._create_view(shape, argument["dtype"])

    def _values(self, dtype: str, shape: tuple[int, ...], place: int, written: bool) -> Any:
        import numpy as np

        return np.zeros(shape, np.float32) if written else ordinary(dtype, shape, self._random(place))

    def _random(self, *key: int) -> Any:
        import numpy as np

        return np.random.default_rng((self.seed, *key))


def roomy(values: Any) -> Any:
    """The bytes of an array from the beginning of a page, and its first ones once more for a page behind them."""
    import numpy as np

    data = values.reshape(-1).view(np.uint8)
    room = np.empty(data.size + 2 * PAGE, np.uint8)
    begin = -room.ctypes.data % PAGE
    room[begin : begin + data.size] = data
    room[begin + data.size : begin + data.size + PAGE] = np.resize(data, PAGE)
    return room[begin : begin + data.size + PAGE]


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
