"""Time a whole model against ONNX Runtime with as many threads, and show where the time goes.

    python -m tests.bench.model MODEL.onnx --dim batch=1 --dim seq=128 --threads 2
    python -m tests.bench.model bert-base-8x512 --layers 2 --threads 1   # a case of configs/workloads/models.toml
    python -m tests.bench.model bert-base-1x128 --keep compiled --compile-only   # now, and time it later

Calls take turns in blocks, so that other load on the machine falls on both alike; the median of all calls is shown.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from redfuser.bench.sides import Side, onnx_runtime
from redfuser.bench.timing import interleaved
from redfuser.machine.threads import use_threads
from redfuser.oracle.run import run_onnxruntime


def main() -> None:
    """Compile the model, time it, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="an ONNX file, or a case of the workload of whole models")
    parser.add_argument("--layers", type=int, help="of a case, fewer than it has: equal layers take equal times")
    parser.add_argument("--dim", action="append", default=[], help="NAME=EXTENT")
    parser.add_argument("--shape", action="append", default=[], help="INPUT=EXTENTxEXTENT")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--kernels", type=int, default=12, help="rows of the table of kernels")
    parser.add_argument("--unfused", action="store_true", help="leave every cascade as it is")
    parser.add_argument("--keep", type=Path, help="folder of artifacts: those that are there aren't compiled again")
    parser.add_argument("--compile-only", action="store_true", help="fill the folder, measure nothing")
    arguments = parser.parse_args()
    use_threads(arguments.threads)
    with model_file(arguments.model, arguments.layers) as path:
        ours, feeds = kept_model(path, arguments) if arguments.keep else compile_model(path, arguments)
        if arguments.compile_only:
            return
        proto = onnx.load(path)
    check(ours.run(feeds), run_onnxruntime(proto, feeds, arguments.threads))
    peer = onnx_runtime(proto, feeds, arguments.threads)
    if peer is None:
        raise SystemExit("onnxruntime isn't installed")
    times = interleaved({"redfuser": ours.in_place(feeds), "onnxruntime": peer}, arguments.rounds)
    for name, taken in times.items():
        print(f"{name:12} median {statistics.median(taken) * 1e3:8.3f} ms   least {min(taken) * 1e3:8.3f} ms")
    ratio = statistics.median(times["onnxruntime"]) / statistics.median(times["redfuser"])
    print(f"redfuser is {ratio:.2f} times as fast as onnxruntime, {arguments.threads} threads")
    print_kernels(ours, feeds, arguments.kernels)


class Compiled:
    """A module in this process, with its virtual machine open to instruments."""

    def __init__(self, library: Path, names: list[str], outputs: list[str]) -> None:
        import tvm
        from tvm import relax

        self.names, self.outputs = names, outputs
        self.machine = relax.VirtualMachine(tvm.runtime.load_module(str(library)), tvm.cpu())

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Call ``main`` once."""
        result = self.in_place(feeds)()
        results = [result] if hasattr(result, "numpy") else list(result)
        return {name: array.numpy() for name, array in zip(self.outputs, results, strict=True)}

    def in_place(self, feeds: Mapping[str, np.ndarray]) -> Side:
        """A call of ``main`` on tensors that are in place; like the peer's, its results aren't copied."""
        from tvm.runtime import tensor

        arguments = [tensor(feeds[name]) for name in self.names]
        return lambda: self.machine["main"](*arguments)


@contextmanager
def model_file(model: str, layers: int | None) -> Iterator[Path]:
    """The file, or a temporary one that a case of the workload is written to."""
    from redfuser.bench.workload import load_workload

    if model.endswith(".onnx"):
        yield Path(model)
        return
    case = {case.name: case for case in load_workload("models").cases}[model]
    if layers is not None:
        case = replace(case, arguments={**case.arguments, "layers": layers})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(case.model().SerializeToString())
        yield path


def kept_model(path: Path, arguments: argparse.Namespace) -> tuple[Compiled, dict[str, np.ndarray]]:
    """The artifact of a model, its sizes and depth in the folder, compiled unless it is there; plausible inputs."""
    import redfuser
    from redfuser.artifact.load import load
    from redfuser.artifact.manifest import MODULE
    from redfuser.parsing import parse_dims, parse_shapes
    from redfuser.samples import random_inputs

    sizes = [*arguments.dim, *arguments.shape, *([f"layers={arguments.layers}"] if arguments.layers else [])]
    artifact = arguments.keep / "-".join([Path(arguments.model.removesuffix(".onnx")).name, *sizes])
    if not artifact.exists():
        arguments.keep.mkdir(parents=True, exist_ok=True)
        dims, shapes = parse_dims(arguments.dim), parse_shapes(arguments.shape)
        redfuser.compile(path, output=artifact, dims=dims, shapes=shapes)
    loaded = load(artifact)
    ours = Compiled(artifact / MODULE, [s.name for s in loaded.inputs], [s.name for s in loaded.outputs])
    return ours, random_inputs(loaded.inputs, 0)


def compile_model(path: Path, arguments: argparse.Namespace) -> tuple[Compiled, dict[str, np.ndarray]]:
    """Compile, and make plausible inputs."""
    from redfuser.codegen.cpu.module import assemble
    from redfuser.driver import compile_model as fused
    from redfuser.frontend import load_model, lower
    from redfuser.options import CompileOptions
    from redfuser.parsing import parse_dims, parse_shapes
    from redfuser.progress import Silent
    from redfuser.samples import random_inputs
    from redfuser.targets import CpuTarget, load_target

    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    dims, shapes = parse_dims(arguments.dim), parse_shapes(arguments.shape)
    start, used = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "module.so"
        if arguments.unfused:
            compiled = lower(load_model(path), dims, shapes)
            assemble(compiled.module, [], target).write(library)
        else:
            compiled = fused(path, CompileOptions(target, dims, shapes), Silent())
            compiled.module_writer(library)
        ours = Compiled(library, [s.name for s in compiled.inputs], [s.name for s in compiled.outputs])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    seconds = f"{time.perf_counter() - start:.1f} s, {time.process_time() - used:.1f} s of a processor"
    print(f"compiled in {seconds}, {peak} MB at most")
    return ours, random_inputs(compiled.inputs, 0)


def check(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> None:
    """Print how far the results are apart."""
    for name, mine in ours.items():
        other = theirs[name]
        if other.dtype.kind == "f":
            print(f"{name}: largest difference {np.abs(mine.astype('f8') - other.astype('f8')).max():.2e}")


def print_kernels(ours: Compiled, feeds: Mapping[str, np.ndarray], rows: int) -> None:
    """A table of what the virtual machine calls, dearest first."""
    from tvm.relax import VMInstrumentReturnKind

    times: dict[str, list[float]] = {}
    started = 0.0

    def instrument(_: object, name: str, before: bool, *__: object) -> int:
        nonlocal started
        if before:
            started = time.perf_counter()
        else:
            times.setdefault(name, []).append(time.perf_counter() - started)
        return int(VMInstrumentReturnKind.NO_OP)

    runs, call = 9, ours.in_place(feeds)
    ours.machine.set_instrument(instrument)
    for _ in range(runs):
        call()
    whole = {name: statistics.median(taken) * len(taken) / runs for name, taken in times.items()}
    print(f"kernels: {sum(whole.values()) * 1e3:.3f} ms")
    for name, seconds in sorted(whole.items(), key=lambda item: -item[1])[:rows]:
        calls = len(times[name]) // runs
        print(f"{seconds * 1e6:9.1f} us  {calls:3} calls of {seconds / calls * 1e6:8.1f} us  {name}")


if __name__ == "__main__":
    main()
