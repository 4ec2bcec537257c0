"""Time a model or a workload, fused against unfused, ONNX Runtime and PyTorch, in one interleaved run."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from redfuser.errors import UsageError
from redfuser.paths import path_of

from .arguments import add_common, add_model, add_tuning, compile_options, positive
from .files import check_file, whole_file
from .output import print_document, print_json, progress

if TYPE_CHECKING:
    from redfuser.bench.result import BenchResult
    from redfuser.bench.run import Subject
    from redfuser.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what this command takes."""
    add_model(
        parser,
        "WHAT",
        "an ONNX file, a workload file (.toml) or the name of one (mha, mla, moe, …), or what compile wrote",
    )
    parser.add_argument("--case", action="append", default=[], metavar="NAME", help="only this case of the workload")
    parser.add_argument(
        "--device", metavar="cpu|cuda[:N]", help="where to measure (default: the first that fits the target)"
    )
    parser.add_argument("--rounds", type=positive, default=9, metavar="N", help="turns of each side (default: 9)")
    parser.add_argument("--ablate", action="store_true", help="compare strategies and segment counts instead of peers")
    parser.add_argument("--plot", type=path_of, metavar="FILE", help="also draw a bar chart: .svg, or .png with Pillow")
    parser.add_argument("-o", "--output", type=path_of, metavar="FILE.json", help="also write the result as JSON")
    parser.add_argument(
        "--export",
        type=path_of,
        metavar="FOLDER",
        help="for a GPU: write kernels and a script to run there, time nothing",
    )
    add_tuning(parser, budget="off")
    parser.add_argument("--tuning-lock", type=path_of, metavar="FILE", help="use the schedules that tune found")
    add_common(parser, ("terminal", "json", "markdown", "html"))


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        RedFuserError: one of its subclasses.
    """
    from redfuser.bench.plot import check_plot

    if arguments.plot is not None:
        check_plot(arguments.plot)
    for path in filter(None, (arguments.output, arguments.plot)):
        check_file(path)
    if arguments.export is not None:
        return _export(arguments)
    if arguments.model.is_dir():
        from redfuser.bench.run import time_artifact

        options = compile_options(arguments)
        with progress(arguments) as shown:
            result = time_artifact(arguments.model, options, arguments.device, arguments.rounds, shown)
    else:
        with progress(arguments) as shown, subjects(arguments) as found:
            result = _compare(arguments, found, shown)
    _write(result, arguments)
    return 0


def _compare(arguments: argparse.Namespace, found: list[Subject], shown: Progress) -> BenchResult:
    """Compile and time each graph."""
    import os

    from redfuser.bench.run import bench, collect
    from redfuser.machine.threads import use_threads
    from redfuser.targets import CpuTarget

    options = compile_options(arguments)
    target, whole = options.target, any(subject.whole for subject in found)
    with bench(options, shown, arguments.rounds, whole, arguments.device) as (measured, rates):
        if measured.place.threads:
            use_threads(measured.place.threads)
            os.environ["OMP_NUM_THREADS"] = str(measured.place.threads)
        if arguments.ablate:
            from redfuser.bench.ablate import Ablation

            if rates is None or not isinstance(target, CpuTarget):
                raise UsageError(
                    f"strategies are compared on CPUs only, and {target.name} is none", "leave --ablate out"
                )
            ablation = Ablation(measured, target, rates)
            cases = tuple(ablation.run(subject) for subject in found)
        else:
            cases = tuple(measured.compare(subject, rates) for subject in found)
        return collect(Path(str(arguments.model)).name, target, measured.place, rates, cases)


def _export(arguments: argparse.Namespace) -> int:
    """A bundle for each graph; several go into folders of their own."""
    from redfuser.driver import bundle_model
    from redfuser.report.describe import summary_lines
    from redfuser.report.document import plain

    if arguments.model.is_dir():
        raise UsageError("a bundle is made of a model or a workload, not of an artifact", "give the ONNX file")
    options = compile_options(arguments)
    with progress(arguments) as shown, subjects(arguments) as found:
        for subject in found:
            folder = arguments.export / subject.name if len(found) > 1 else arguments.export
            report = bundle_model(subject.path, options, folder, shown, subject.case)
            lines = (*summary_lines(report), f"wrote {folder}: copy it to the GPU machine and run python run.py there")
            if arguments.format == "json":
                print_json({"schema": "redfuser.bundle/2", "output": str(folder), "report": report.as_data()})
            else:
                print(*map(plain, lines), sep="\n")
    return 0


@contextmanager
def subjects(arguments: argparse.Namespace) -> Iterator[list[Subject]]:
    """What is to be measured; graphs of a workload lie in a folder that goes away afterwards."""
    import tempfile

    from redfuser.bench.run import Subject
    from redfuser.bench.workload import load_workload

    if arguments.model.suffix == ".onnx":
        yield [Subject(arguments.model.stem, arguments.model)]
        return
    workload = load_workload(str(arguments.model))
    names = [case.name for case in workload.cases]
    unknown = sorted(set(arguments.case) - set(names))
    if unknown:
        raise UsageError(f"no case is called {unknown[0]!r}", f"cases are {', '.join(names)}")
    with tempfile.TemporaryDirectory(prefix="redfuser-bench-") as folder:
        found = []
        for number, case in enumerate(workload.cases):
            if not arguments.case or case.name in arguments.case:
                path = Path(folder) / f"{number}.onnx"
                path.write_bytes(case.model().SerializeToString())
                found.append(Subject(case.name, path, case))
        yield found


def _write_json(result: BenchResult, path: Path) -> None:
    path.write_text(result.to_json(), encoding="utf-8")


def _write(result: BenchResult, arguments: argparse.Namespace) -> None:
    from redfuser.bench.plot import write_plot
    from redfuser.records import encode

    for path, write in ((arguments.output, _write_json), (arguments.plot, write_plot)):
        if path is not None:
            with whole_file(path) as partial:
                write(result, partial)
    if arguments.format == "json":
        print_json(encode(result))
    else:
        print_document(result.document(), arguments.format)
