"""What a bundle holds of an analysed model: its fused kernels, each with what computes the same in PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from redfuser.artifact.bundle import BundledKernel, Peer
from redfuser.cascade.kinds import classify
from redfuser.cascade.model import Cascade
from redfuser.options import CompileOptions
from redfuser.stages.fusion import Outcome

if TYPE_CHECKING:
    from redfuser.bench.workload import Case
    from redfuser.stages.analysis import Analysis


def bundled(
    analysis: Analysis, outcomes: Mapping[Cascade, Outcome], options: CompileOptions, case: Case | None
) -> tuple[BundledKernel, ...]:
    """The kernels of a model, in the order of its cascades.

    Args:
        case: of a workload that the model is the graph of; where one cascade is all of it, PyTorch is its peer.
    """
    names = {analysis.canonical[found.name].cascade: analysis.canonical[found.name].inputs
             for found in analysis.detection.cascades}  # fmt: skip
    given = [str(parameter.name_hint) for parameter in analysis.lowered.module["main"].params]
    kernels = []
    for cascade, outcome in outcomes.items():
        if outcome.kernel is None:
            continue
        program, peer = outcome.kernel.program, None
        if case is not None and case.torch and sorted(names[cascade]) == sorted(given):
            inputs = {name: tensor.name for name, tensor in zip(names[cascade], cascade.inputs, strict=True)}
            peer = Peer(case.torch, tuple(inputs[name] for name in given), case.arguments)
        moved = outcome.traffic.read_bytes + outcome.traffic.write_bytes
        tf32 = options.fp32 == "tf32"
        kernels.append(BundledKernel(classify(cascade), moved, program, outcome.kernel.code, tf32, peer))
    return tuple(kernels)
