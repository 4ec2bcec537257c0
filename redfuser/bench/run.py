"""The benchmark: compile, gather the sides, let them take turns, sum up."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from redfuser.artifact.manifest import MODULE
from redfuser.bench.place import Place, place_of
from redfuser.bench.result import SCHEMA, BenchResult, CaseResult, summarise
from redfuser.bench.sides import OURS, UNFUSED, Side, module, onnx_runtime, torch_sides
from redfuser.bench.timing import interleaved
from redfuser.bench.workload import Case, known_case
from redfuser.driver import analyze, compile_analysis
from redfuser.errors import UsageError
from redfuser.machine.versions import installed
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.report.collect import describe_target
from redfuser.report.value import FusionReport
from redfuser.stages.analysis import Analysis
from redfuser.stages.fusion import ProductMaker
from redfuser.targets import CpuTarget, Target
from redfuser.tuning.costs.calibrate import calibrated, peak_gflops
from redfuser.tuning.costs.rates import CpuRates

VERSIONS = ("redfuser", "apache-tvm", "onnxruntime", "torch")


@dataclass(frozen=True)
class Subject:
    """One graph to measure.

    Args:
        name: of the case.
        path: the ONNX file.
        case: of the workload that the graph is.
    """

    name: str
    path: Path
    case: Case | None = None

    @property
    def whole(self) -> bool:
        """Whether the graph is nothing but its cascades, so that their work is its own."""
        return self.case is not None and self.case.whole


class Bench:
    """Measures subjects on this machine.

    Args:
        options: how to compile.
        progress: told what is going on.
        rounds: turns of each side.
        scratch: folder for modules.
        place: where the sides run.
    """

    def __init__(self, options: CompileOptions, progress: Progress, rounds: int, scratch: Path, place: Place) -> None:
        self.options, self.progress, self.rounds, self.scratch = options, progress, rounds, scratch
        self.place = place
        self.modules = 0

    def compare(self, subject: Subject, rates: CpuRates | None) -> CaseResult:
        """Fused against unfused and everything else that can run the graph.

        Args:
            rates: of the processor, for the share of what it allows; ``None`` on a GPU.
        """
        analysis = analyze(subject.path, self.options, self.progress)
        feeds = self.feeds(analysis)
        compiled = compile_analysis(analysis, self.options, self.progress)
        sides: dict[str, Side] = {OURS: self.load(analysis, compiled.module_writer, feeds)}
        sides[UNFUSED] = self.load(analysis, self.unfused(analysis), feeds)
        absent: dict[str, str] = {}
        if self.place.threads:
            peer = self._attempt(
                "onnxruntime", absent, lambda: onnx_runtime(analysis.onnx.whole(), feeds, self.place.threads)
            )
            if peer is not None:
                sides["onnxruntime"] = peer
        if subject.case is not None:
            sides |= self.peers(subject.case, feeds, absent)
        self.progress.stage(f"measure {subject.name}")
        times = self.times(sides)
        flops, moved = work(compiled.report) if subject.whole else (0, 0)
        return summarise(subject.name, times, absent, flops, moved, self._floor(flops, moved, rates))

    def peers(self, case: Case, feeds: Mapping[str, Any], absent: dict[str, str]) -> dict[str, Side]:
        """PyTorch's sides of a workload that run; ``absent`` gets why the others don't."""
        if not case.torch:
            return {}
        make = partial(torch_sides, case.torch, case.arguments, feeds, self.place)
        found = self._attempt("torch", absent, make) or {}
        return {side: run for side, run in found.items() if self._attempt(side, absent, run) is not None}

    def times(self, sides: Mapping[str, Side]) -> dict[str, list[float]]:
        """Seconds of every call, the sides taking turns."""
        return interleaved(sides, self.rounds, self.progress.step, self.place.wait, self.place.burst)

    def _floor(self, flops: int, moved: int, rates: CpuRates | None) -> float:
        """Microseconds that the processor can't beat; 0 where that isn't known."""
        target = self.options.target
        if rates is None or not rates.measured or not isinstance(target, CpuTarget):
            return 0.0
        return max(flops / peak_gflops(rates, target), moved / rates.memory_gbs) / 1e3

    def feeds(self, analysis: Analysis) -> dict[str, Any]:
        """Random inputs.

        Raises:
            UsageError: a size is known on the call only.
        """
        from redfuser.samples import random_inputs

        for spec in analysis.lowered.inputs:
            if not all(isinstance(extent, int) for extent in spec.shape):
                raise UsageError(f"input {spec} has sizes left open", "fix them with --dim NAME=EXTENT")
        return random_inputs(analysis.lowered.inputs, self.options.seed)

    def unfused(self, analysis: Analysis) -> Any:
        """Writes the module in which every cascade stays as TVM lowered it."""
        from redfuser.codegen.backends import backend_for

        with backend_for(self.options.target, self.options.fp32) as backend:
            products = ProductMaker(self.options, backend, self.progress)
            return backend.assemble(analysis.lowered.module, [], products).write

    def load(self, analysis: Analysis, write: Any, feeds: Mapping[str, Any]) -> Side:
        """A module, written and loaded."""
        self.modules += 1
        library = self.scratch / f"{self.modules}.so"
        write(library)
        return module(library, analysis.lowered.inputs, feeds, self.place)

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


def collect(
    title: str, target: Target, place: Place, rates: CpuRates | None, cases: tuple[CaseResult, ...]
) -> BenchResult:
    """The cases with what must be known of the machine."""
    versions = {name: version for name in VERSIONS if (version := installed(name)) is not None}
    peak, bandwidth = 0.0, 0.0
    if rates is not None and rates.measured and isinstance(target, CpuTarget):
        peak, bandwidth = peak_gflops(rates, target), rates.memory_gbs
    return BenchResult(SCHEMA, title, place.name, place.threads, round(peak, 1), round(bandwidth, 2), versions, cases)


def time_artifact(
    folder: Path, options: CompileOptions, device: str | None, rounds: int, progress: Progress
) -> BenchResult:
    """What an artifact takes: against PyTorch if it was made of a case of a workload, otherwise by itself.

    Args:
        options: threads and the seed count.
        device: see :func:`redfuser.load`.

    Raises:
        RedFuserError: it can't be loaded, or has sizes left open.
    """
    from redfuser.artifact.load import load
    from redfuser.samples import random_inputs

    progress.stage("load the artifact")
    model = load(folder, options.threads, device)
    for spec in model.inputs:
        if not all(isinstance(extent, int) for extent in spec.shape):
            raise UsageError(f"input {spec} has sizes left open", "compile with --dim NAME=EXTENT to measure one size")
    place = place_of(model.manifest.target, device, options.threads)
    made = Bench(options, progress, rounds, folder, place)
    feeds = random_inputs(model.inputs, options.seed)
    sides = {OURS: module(folder / MODULE, model.inputs, feeds, place)}
    absent: dict[str, str] = {}
    case = known_case(model.manifest.model.sha256)
    if case is not None:
        sides |= made.peers(case, feeds, absent)
    progress.stage("measure")
    result = summarise(model.manifest.model.name, made.times(sides), absent)
    return collect(folder.name, options.target, place, None, (result,))


@contextmanager
def bench(
    options: CompileOptions, progress: Progress, rounds: int, roofline: bool, device: str | None = None
) -> Iterator[tuple[Bench, CpuRates | None]]:
    """A bench with a scratch folder, and the processor's rates if it is one.

    Args:
        roofline: whether to measure the rates, before anything else runs; else they are nominal.
        device: where to measure; the first device of the target's kind if not given.

    Raises:
        UsageError, MissingToolError: see :func:`redfuser.bench.place.place_of`.
    """
    from redfuser.tuning.cache import Cache, cache_folder
    from redfuser.tuning.timing.builder import Builder
    from redfuser.tuning.timing.runner import LocalRunner

    target = options.target
    place = place_of(describe_target(target), device, target.cores if isinstance(target, CpuTarget) else None)
    with tempfile.TemporaryDirectory(prefix="redfuser-bench-") as folder:
        made = Bench(options, progress, rounds, Path(folder), place)
        if not isinstance(target, CpuTarget):
            yield made, None
            return
        if not roofline:
            yield made, CpuRates.nominal(target)
            return
        runner = LocalRunner(target.cores)
        try:
            progress.stage("measure the machine")
            cache = Cache(cache_folder(), progress.warn)
            rates = calibrated(target, runner, Builder(target, made.scratch).build, cache)
        finally:
            runner.close()
        yield made, rates
