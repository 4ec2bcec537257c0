"""What a compile tells, from what became of its cascades: the report, the tuning lock, and every stage's value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Assembly, Kernel
from redfuser.options import CompileOptions
from redfuser.report.collect import (
    describe_cascade,
    describe_choice,
    describe_product,
    describe_rejected,
    describe_target,
)
from redfuser.report.value import FusionReport, ModelInfo
from redfuser.stages.analysis import Analysis
from redfuser.stages.fusion import Outcome
from redfuser.tuning.record import TuningLock


def collect_report(
    analysis: Analysis,
    outcomes: Mapping[Cascade, Outcome],
    options: CompileOptions,
    products: Mapping[str, Outcome] = MappingProxyType({}),
) -> FusionReport:
    """What became of every cascade, fused or not, and of the lone products that a target schedules."""
    onnx, lowered = analysis.onnx, analysis.lowered
    info = ModelInfo(onnx.path.name, onnx.digest, onnx.opset, onnx.nodes, lowered.inputs, lowered.outputs)
    entries = []
    for cascade in analysis.detection.cascades:
        canonical = analysis.canonical[cascade.name]
        outcome = outcomes[canonical.cascade]
        error = outcome.kernel.error if outcome.kernel else None
        ends = [boundary for boundary in analysis.detection.boundaries if boundary.cascade == cascade.name]
        entries.append(
            describe_cascade(
                cascade,
                outcome.precise,
                outcome.derivation,
                outcome.schedule,
                outcome.traffic,
                outcome.time,
                error,
                outcome.reason,
                ends,
                describe_choice(outcome.record) if outcome.record is not None else None,
                outcome.kernel.resources if outcome.kernel else None,
                outcome.kernel.products if outcome.kernel else (),
                canonical.literals,
            )
        )
    for number, rejected in enumerate(analysis.detection.rejected):
        members = [analysis.graph.definitions[name] for name in rejected.members]
        entries.append(describe_rejected(f"rejected_{number}", rejected, members))
    listed = tuple(
        describe_product(
            name, o.kernel.program.schedule, o.kernel.resources, describe_choice(o.record), o.time, o.kernel.products
        )
        for name, o in products.items()
        if o.kernel is not None and o.record is not None
    )
    return FusionReport(info, describe_target(options.target), tuple(entries), listed)


def collect_lock(
    analysis: Analysis,
    options: CompileOptions,
    outcomes: Mapping[Cascade, Outcome],
    products: Mapping[str, Outcome],
) -> TuningLock:
    """The schedule of every kernel, by the name of the first cascade or product that has it."""
    names = analysis.distinct()
    named = {names[cascade]: outcome for cascade, outcome in outcomes.items()} | dict(products)
    return TuningLock.make(options.target, {name: o.record for name, o in named.items() if o.record is not None})


def collect_dump(
    analysis: Analysis,
    outcomes: Mapping[Cascade, Outcome],
    kernels: Sequence[Kernel],
    assembly: Assembly,
    report: FusionReport,
) -> dict[str, object]:
    """The value of each stage, in the order of the stages; its text is what ``--dump`` writes."""
    return {
        "onnx": analysis.onnx,
        "lowered": analysis.lowered,
        "definitions": analysis.graph,
        "cascades": analysis.detection,
        "derivations": _Listing([o.derivation for o in outcomes.values() if o.derivation is not None]),
        "tile-programs": _Listing([kernel.program for kernel in kernels]),
        "kernels": _Listing(kernels),
        "module": assembly,
        "report": report,
    }


@dataclass(frozen=True)
class _Listing:
    """Several values of one stage; written out only when asked for."""

    values: Sequence[object]

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.values))
