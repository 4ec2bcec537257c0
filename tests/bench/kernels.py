"""Time compiled graphs against the best of ONNX Runtime and PyTorch on the same inputs and threads.

    python -m tests.bench.kernels                       # every workload
    python -m tests.bench.kernels attention-512 softmax # some
    python -m tests.bench.kernels --threads 1 --keep compiled  # on one core; artifacts stay in a folder

Medians and the ratio of the best peer's are shown; above 1 the compiled module is faster. A peer that takes many times
as long is timed once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from redfuser.bench.timing import interleaved
from redfuser.machine.threads import use_threads
from tests.bench.workloads import WORKLOADS, Feeds, Workload

Run = Callable[[], Any]

#: A peer this many times slower takes no turns.
HOPELESS = 20


def main() -> None:
    """Print one line a workload."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(WORKLOADS)}; all if none is given")
    parser.add_argument("--threads", type=int, default=2, help="cores to use, the first ones of the machine")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--keep", type=Path, help="folder of artifacts: those that are there aren't compiled again")
    parser.add_argument("--compile-only", action="store_true", help="fill the folder, measure nothing")
    arguments = parser.parse_args()
    require_known(parser, arguments.names)
    # The target's cores and every side's threads are those this process may run on.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.threads])
    use_threads(arguments.threads)
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        for name in arguments.names or WORKLOADS:
            sides = prepare(WORKLOADS[name], folder / f"{name}-{arguments.threads}", arguments.threads)
            if not arguments.compile_only:
                print(line(name, measure(sides, arguments.rounds)), flush=True)


def require_known(parser: argparse.ArgumentParser, names: Collection[str]) -> None:
    """End with an error of usage if a workload of another name is asked for."""
    if unknown := sorted(set(names) - set(WORKLOADS)):
        parser.error(f"no workload is called {', '.join(unknown)}")


def measure(sides: dict[str, Run], rounds: int) -> dict[str, list[float]]:
    """Seconds by side: of every call of those that are near each other, of one call of the others."""
    once = {side: [_seconds(run)] for side, run in sides.items()}
    near = {side: run for side, run in sides.items() if once[side][0] < HOPELESS * once["redfuser"][0]}
    return once | interleaved(near, rounds)


def _seconds(run: Run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def line(name: str, times: dict[str, list[float]]) -> str:
    """Medians of every side, and how many times faster than the best peer ours is."""
    medians = {side: statistics.median(taken) * 1e3 for side, taken in times.items()}
    ratio = min(value for side, value in medians.items() if side != "redfuser") / medians["redfuser"]
    figures = "  ".join(f"{side} {value:8.3f} ms" for side, value in medians.items())
    return f"{name:27} {figures}  ratio {ratio:5.2f}"


def prepare(workload: Workload, artifact: Path, threads: int) -> dict[str, Run]:
    """Every side, run once.

    Args:
        artifact: is written unless it is there.
    """
    proto = workload.model()
    if not artifact.exists():
        compile_graph(proto, artifact)
    ours, feeds = module(workload, artifact)
    sides = {"redfuser": ours, "onnxruntime": onnx_runtime(proto, feeds, threads)}
    if workload.dynamic is not None:
        sides["onnxruntime dynamic"] = onnx_runtime(workload.dynamic(), feeds, threads)
    sides |= pytorch(workload, feeds, threads)
    for run in sides.values():
        run()
    return sides


def compile_graph(proto: Any, artifact: Path) -> None:
    """Compile a graph for this machine."""
    import redfuser

    artifact.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "model.onnx"
        path.write_bytes(proto.SerializeToString())
        redfuser.compile(path, output=artifact)


def module(workload: Workload, artifact: Path) -> tuple[Run, Feeds]:
    """The compiled module on tensors that are in place, and what is in them."""
    from redfuser.artifact.load import load
    from redfuser.artifact.manifest import MODULE
    from redfuser.bench.place import processor
    from redfuser.bench.sides import module as side

    specs = load(artifact).inputs
    feeds = {spec.name: workload.feed(spec.name, tuple(map(int, spec.shape)), spec.dtype) for spec in specs}
    return side(artifact / MODULE, specs, feeds, processor()), feeds


def onnx_runtime(proto: Any, feeds: Feeds, threads: int) -> Run:
    """The graph in ONNX Runtime with all its optimisations, into memory that stays."""
    from redfuser.bench.sides import onnx_runtime as side

    found = side(proto, feeds, threads)
    if found is None:
        raise SystemExit("onnxruntime isn't installed")
    return found


def pytorch(workload: Workload, feeds: Feeds, threads: int) -> dict[str, Run]:
    """PyTorch, eager and compiled; nothing where it isn't installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    tensors = [torch.from_numpy(value) for value in feeds.values()]
    compiled = torch.compile(workload.torch)
    sides = {"torch": lambda: workload.torch(*tensors), "torch.compile": lambda: compiled(*tensors)}
    if workload.layer is not None:
        layer = workload.layer
        sides["torch layer"] = lambda: layer(*tensors)
    return sides


if __name__ == "__main__":
    main()
