"""The benchmark: compile, gather the sides, let them take turns, sum up."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redfuser.artifact.manifest import MODULE
from redfuser.bench.result import SCHEMA, BenchResult, CaseResult, summarise
from redfuser.bench.sides import OURS, UNFUSED, Side, module, onnx_runtime, torch_sides
from redfuser.bench.timing import interleaved
from redfuser.bench.workload import Argument
from redfuser.driver import Analysis, analyze, compile_analysis
from redfuser.errors import UsageError
from redfuser.host import usable_cores
from redfuser.options import CompileOptions, Progress
from redfuser.report.value import FusionReport
from redfuser.targets import CpuTarget
from redfuser.tuning.costs.calibrate import calibrated, peak_gflops
from redfuser.tuning.costs.rates import CpuRates
from redfuser.tuning.fingerprint import machine_name
from redfuser.versions import installed

VERSIONS = ("redfuser", "apache-tvm", "onnxruntime", "torch")


@dataclass(frozen=True)
class Subject:
    """One graph to measure.

    Args:
        name: of the case.
        path: the ONNX file.
        torch: a name of :data:`redfuser.bench.torch_peers.PEERS`, or empty.
        arguments: of the builder, some of which a peer takes.
        whole: whether the graph is nothing but its cascades, so that their work is the graph's.
    """

    name: str
    path: Path
    torch: str = ""
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    whole: bool = False


class Bench:
    """Measures subjects on this machine.

    Args:
        options: how to compile.
        progress: told what is going on.
        rounds: turns of each side.
        scratch: folder for modules.
    """

    def __init__(self, options: CompileOptions, progress: Progress, rounds: int, scratch: Path) -> None:
        if not isinstance(options.target, CpuTarget):
            raise UsageError(f"{options.target.name} can't be measured here", "give a CPU target, or none")
        self.options, self.progress, self.rounds, self.scratch = options, progress, rounds, scratch
        self.target = options.target
        self.modules = 0

    def compare(self, subject: Subject, rates: CpuRates) -> CaseResult:
        """Fused against unfused and everything else that can run the graph."""
        analysis = analyze(subject.path, self.options, self.progress)
        feeds = self.feeds(analysis)
        compiled = compile_analysis(analysis, self.options, self.progress)
        sides: dict[str, Side] = {OURS: self.load(analysis, compiled.module_writer, feeds)}
        sides[UNFUSED] = self.load(analysis, self.unfused(analysis), feeds)
        absent: dict[str, str] = {}
        peer = self._attempt("onnxruntime", absent, lambda: onnx_runtime(analysis.onnx.proto, feeds, self.target.cores))
        if peer is not None:
            sides["onnxruntime"] = peer
        if subject.torch:
            found = torch_sides(subject.torch, subject.arguments, feeds, self.target.cores)
            for name, side in found.items():
                if self._attempt(name, absent, side) is not None:
                    sides[name] = side
        self.progress.stage(f"measure {subject.name}")
        times = interleaved(sides, self.rounds, self.progress.step)
        flops, moved = work(compiled.report) if subject.whole else (0, 0)
        floor = max(flops / peak_gflops(rates, self.target), moved / rates.memory_gbs) / 1e3 if rates.measured else 0.0
        return summarise(subject.name, times, absent, flops, moved, floor)

    def feeds(self, analysis: Analysis) -> dict[str, Any]:
        """Random inputs.

        Raises:
            UsageError: a size is known on the call only.
        """
        from redfuser.oracle import random_inputs

        for spec in analysis.lowered.inputs:
            if not all(isinstance(extent, int) for extent in spec.shape):
                raise UsageError(f"input {spec} has sizes left open", "fix them with --dim NAME=EXTENT")
        return random_inputs(analysis.lowered.inputs, self.options.seed)

    def unfused(self, analysis: Analysis) -> Any:
        """Writes the module in which every cascade stays as TVM lowered it."""
        from redfuser.codegen.backends import backend_for

        return backend_for(self.options.target).assemble(analysis.lowered.module, []).write

    def load(self, analysis: Analysis, write: Any, feeds: Mapping[str, Any]) -> Side:
        """A module, written and loaded."""
        self.modules += 1
        library = self.scratch / f"{self.modules}.so"
        write(library)
        return module(library, analysis.lowered.inputs, feeds)

    def _attempt(self, name: str, absent: dict[str, str], run: Any) -> Any:
        """What a peer gives, or ``None`` and the reason: peers raise whatever they like."""
        try:
            result = run()
        except Exception as error:
            absent[name] = " ".join(str(error).split())[:160] or type(error).__name__
            return None
        if result is None:
            absent[name] = "not installed"
        return result


def work(report: FusionReport) -> tuple[int, int]:
    """Operations and bytes of all cascades, fused."""
    parts = [entry.traffic for entry in report.cascades if entry.traffic is not None]
    return sum(t.flops for t in parts), sum(t.read_bytes + t.write_bytes for t in parts)


def collect(title: str, target: CpuTarget, rates: CpuRates, cases: tuple[CaseResult, ...]) -> BenchResult:
    """The cases with what must be known of the machine."""
    versions = {name: version for name in VERSIONS if (version := installed(name)) is not None}
    peak, bandwidth = (peak_gflops(rates, target), rates.memory_gbs) if rates.measured else (0.0, 0.0)
    return BenchResult(
        SCHEMA, title, machine_name(), target.cores, round(peak, 1), round(bandwidth, 2), versions, cases
    )


def time_artifact(folder: Path, rounds: int, threads: int | None, seed: int, progress: Progress) -> BenchResult:
    """What an artifact takes, by itself: its ONNX file, which peers would need, isn't in it.

    Raises:
        RedFuserError: it can't be loaded, or has sizes left open.
    """
    from redfuser.artifact.load import load
    from redfuser.oracle import random_inputs

    progress.stage("load the artifact")
    model = load(folder, threads)
    for spec in model.inputs:
        if not all(isinstance(extent, int) for extent in spec.shape):
            raise UsageError(f"input {spec} has sizes left open", "compile with --dim NAME=EXTENT to measure one size")
    side = module(folder / MODULE, model.inputs, random_inputs(model.inputs, seed))
    progress.stage("measure")
    case = summarise(model.manifest.model.name, interleaved({OURS: side}, rounds, progress.step), {})
    versions = {name: version for name in VERSIONS if (version := installed(name)) is not None}
    return BenchResult(SCHEMA, folder.name, machine_name(), threads or usable_cores(), 0.0, 0.0, versions, (case,))


@contextmanager
def bench(options: CompileOptions, progress: Progress, rounds: int, roofline: bool) -> Iterator[tuple[Bench, CpuRates]]:
    """A bench with a scratch folder, and the machine's rates.

    Args:
        roofline: whether to measure the rates, before anything else runs; else they are nominal.
    """
    from redfuser.tuning.cache import Cache, cache_folder
    from redfuser.tuning.timing.builder import Builder
    from redfuser.tuning.timing.runner import LocalRunner

    with tempfile.TemporaryDirectory(prefix="redfuser-bench-") as folder:
        made = Bench(options, progress, rounds, Path(folder))
        if not roofline:
            yield made, CpuRates.nominal(made.target)
            return
        runner = LocalRunner(made.target.cores)
        try:
            progress.stage("measure the machine")
            cache = Cache(cache_folder(), progress.warn)
            rates = calibrated(made.target, runner, Builder(made.target, made.scratch).build, cache)
        finally:
            runner.close()
        yield made, rates
