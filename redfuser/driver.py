"""The compile as one readable list of stages. Everything else is a stage's own affair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from redfuser.algebra import Memo
from redfuser.artifact.contents import CompiledModule, KernelFiles
from redfuser.cascade.canonical import canonicalise
from redfuser.cascade.detect import detect
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Backend, Placement
from redfuser.codegen.backends import backend_for
from redfuser.errors import DynamicShapeError, FusionGateError, UsageError
from redfuser.frontend import lower_prepared, prepare_file
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.report.value import FusionReport
from redfuser.stages.analysis import Analysis
from redfuser.stages.fusion import Outcome, ProductMaker, fuse, plan
from redfuser.stages.results import collect_dump, collect_lock, collect_report
from redfuser.stages.sharing import part, share
from redfuser.targets import CpuTarget
from redfuser.tuning.choose import Chooser, chooser
from redfuser.tuning.record import Record, TuningLock
from redfuser.tuning.task import Task

if TYPE_CHECKING:
    from redfuser.bench.workload import Case


def compile_model(model: Path, options: CompileOptions, progress: Progress) -> CompiledModule:
    """ONNX file in, compiled module and report out; nothing is written.

    Raises:
        RedFuserError: one of its subclasses.
    """
    backend_for(options.target, options.fp32).require_tools()
    return compile_analysis(analyze(model, options, progress), options, progress)


def compile_analysis(
    analysis: Analysis, options: CompileOptions, progress: Progress, choose: Chooser | None = None
) -> CompiledModule:
    """What is left to do once a model is taken apart.

    Args:
        choose: decides on the schedules; usually what the options ask for does.

    Raises:
        RedFuserError: one of its subclasses.
    """
    backend = backend_for(options.target, options.fp32)
    with backend:
        analysis, outcomes = _fuse_all(analysis, options, backend, progress, choose)
        if options.strict:
            _require_all(analysis, outcomes)
        progress.stage("generate the module")
        products = ProductMaker(options, backend, progress)
        assembly = backend.assemble(analysis.lowered.module, _placements(analysis, outcomes), products)
    report = collect_report(analysis, outcomes, options, products.made)
    kernels = [outcome.kernel for outcome in outcomes.values() if outcome.kernel is not None]
    kernels += assembly.kernels
    rest = [KernelFiles("remainder", assembly.texts)] if assembly.texts else []
    return CompiledModule(
        report=report,
        kernels=(*(kernel.files() for kernel in kernels), *rest),
        module_writer=assembly.write,
        inputs=analysis.lowered.inputs,
        outputs=analysis.lowered.outputs,
        dims=analysis.lowered.dims,
        sums=analysis.lowered.sums,
        tuning_lock=collect_lock(analysis, options, outcomes, products.made).to_json(),
        dump=collect_dump(analysis, outcomes, kernels, assembly, report),
    )


def tune_model(
    model: Path, options: CompileOptions, progress: Progress, choose: Chooser | None = None
) -> tuple[TuningLock, FusionReport]:
    """Choose schedules and check the kernels that come of them, without compiling the rest of the model.

    Args:
        choose: decides on the schedules; usually what the options ask for does.

    Raises:
        RedFuserError: one of its subclasses.
    """
    backend = backend_for(options.target, options.fp32)
    backend.require_tools()
    analysis = analyze(model, options, progress)
    with backend:
        analysis, outcomes = _fuse_all(analysis, options, backend, progress, choose)
        progress.stage("schedule products")
        products = ProductMaker(options, backend, progress)
        backend.find_products(analysis.lowered.module, _placements(analysis, outcomes), products)
    lock = collect_lock(analysis, options, outcomes, products.made)
    return lock, collect_report(analysis, outcomes, options, products.made)


def bundle_model(
    model: Path, options: CompileOptions, folder: Path, progress: Progress, case: Case | None = None
) -> FusionReport:
    """Write the fused kernels of a model as a bundle to run on the GPU machine; see :mod:`redfuser.artifact.bundle`.

    Args:
        case: of a workload that the model is the graph of; where one cascade is all of it, PyTorch is its peer.

    Raises:
        RedFuserError: one of its subclasses.
    """
    from redfuser.artifact.bundle import write_bundle
    from redfuser.stages.bundling import bundled

    if isinstance(options.target, CpuTarget):
        raise UsageError(f"a bundle is for a GPU, and {options.target.name} is none", "give a GPU target, say h800")
    backend = backend_for(options.target, options.fp32)
    backend.require_tools()
    analysis = analyze(model, options, progress)
    if analysis.lowered.dims:
        names = ", ".join(f"'{name}'" for name in analysis.lowered.dims)
        raise DynamicShapeError(
            f"a bundle measures kernels at sizes that are known, and {names} of the model is open",
            "give " + " ".join(f"--dim {name}=N" for name in analysis.lowered.dims),
        )
    with backend:
        analysis, outcomes = _fuse_all(analysis, options, backend, progress)
    progress.stage("write the bundle")
    write_bundle(
        folder, analysis.onnx.path.name, options.target, bundled(analysis, outcomes, options, case), options.seed
    )
    return collect_report(analysis, outcomes, options)


def analyze_model(model: Path, options: CompileOptions, progress: Progress) -> FusionReport:
    """Detection and algebra only.

    Raises:
        RedFuserError: one of its subclasses.
    """
    analysis = analyze(model, options, progress)
    progress.stage("derive")
    memo: Memo = {}
    analysis = share(analysis, options, memo, progress)
    planned = {c: plan(c, name, options, memo=memo) for c, name in analysis.distinct().items()}
    return collect_report(analysis, planned, options)


def analyze(model: Path, options: CompileOptions, progress: Progress) -> Analysis:
    from redfuser.cascade.reading.extract import extract_graph

    progress.stage("load the model")
    target = options.target
    as_bytes = isinstance(target, CpuTarget) and target.multiplies_bytes
    onnx = prepare_file(model, options.dims, options.shapes, options.values, convolves_bytes=as_bytes)
    progress.stage("lower to TIR")
    lowered = lower_prepared(onnx)
    progress.stage("find cascades")
    graph, values = extract_graph(lowered.module, lowered.provenance)
    detection = detect(graph)
    canonical = {cascade.name: canonicalise(cascade) for cascade in detection.cascades}
    return Analysis(onnx, lowered, graph, values, detection, canonical)


def _fuse_all(
    analysis: Analysis,
    options: CompileOptions,
    backend: Backend,
    progress: Progress,
    choose: Chooser | None = None,
) -> tuple[Analysis, dict[Cascade, Outcome]]:
    """What becomes of each form that cascades have in the end, and the analysis with these."""
    progress.stage("fuse")
    outcomes: dict[Cascade, Outcome] = {}
    memo: Memo = {}
    analysis = share(analysis, options, memo, progress)
    with chooser(options, progress) as usual:
        while waiting := {cascade: name for cascade, name in analysis.distinct().items() if cascade not in outcomes}:
            decide = partial(_decide, choose or usual, analysis, tuple(waiting.values()))
            for done, (cascade, name) in enumerate(waiting.items(), 1):
                outcomes[cascade] = fuse(cascade, name, options, backend, decide, memo)
                progress.step(done, len(waiting))
            analysis = part(analysis, outcomes, progress)
    kept = {cascade: outcomes[cascade] for cascade in analysis.distinct()}
    for cascade, name in analysis.distinct().items():
        if (reason := kept[cascade].reason) is not None:
            progress.note(f"{name} stays unfused: {reason}")
    return analysis, kept


def _decide(choose: Chooser, analysis: Analysis, names: Sequence[str], task: Task) -> Record:
    """The schedule of a cascade of the model; ``names`` are those that get one now, in order."""
    left = len(names) - names.index(task.name)
    return choose(replace(task, part=partial(analysis.part, task.name), left=left))


def _require_all(analysis: Analysis, outcomes: Mapping[Cascade, Outcome]) -> None:
    for cascade in analysis.detection.cascades:
        reason = outcomes[analysis.canonical[cascade.name].cascade].reason
        if reason is not None:
            raise FusionGateError(f"{cascade.name} isn't fused: {reason}", "compile without --strict to go on unfused")
    for rejected in analysis.detection.rejected:
        raise FusionGateError(f"not fused: {rejected}", "compile without --strict to go on unfused")


def _placements(analysis: Analysis, outcomes: Mapping[Cascade, Outcome]) -> list[Placement]:
    placements = []
    for cascade in analysis.detection.cascades:
        canonical = analysis.canonical[cascade.name]
        kernel = outcomes[canonical.cascade].kernel
        if kernel is not None:
            inputs = tuple(analysis.values[name] for name in canonical.inputs)
            outputs = tuple(analysis.values[name] for name in canonical.outputs)
            placements.append(Placement(kernel, inputs, outputs))
    return placements
