"""One cascade from algebra to machine code, or the reason why it stays unfused. May import every stage.

Fusion may fail, compilation may not: whatever goes wrong in a stage here becomes a reason in the report, which is
why this file alone catches every exception.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from redfuser.algebra.derivation import Derivation
from redfuser.artifact.contents import KernelFiles
from redfuser.cascade.model import Cascade
from redfuser.options import CompileOptions
from redfuser.reason import Reason
from redfuser.records import to_text
from redfuser.report.value import NumericError, Time, Traffic
from redfuser.targets import CpuTarget, Target
from redfuser.tile.ir import Schedule, TileProgram

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc


@dataclass(frozen=True)
class Kernel:
    """A cascade that became one kernel.

    Args:
        program: the tile program, after scheduling.
        function: the kernel as TIR; parameters are the cascade's inputs, then its outputs.
        resources: what the machine code uses, by name.
        error: against float64 on the check inputs; None where the target can't run on this machine.
    """

    program: TileProgram
    function: PrimFunc
    resources: dict[str, int]
    error: NumericError | None

    def files(self) -> KernelFiles:
        """What people may read of it, under ``kernels/NAME/``."""
        return KernelFiles(
            self.program.name,
            {
                "tile.txt": f"{self.program}\n",
                "kernel.tir": f"{self.function.script()}\n",
                "resources.json": to_text(self.resources),
            },
        )


@dataclass(frozen=True)
class Outcome:
    """What became of one canonical cascade.

    Args:
        traffic: compulsory memory traffic, fused and unfused.
        derivation: the algebra's verdict; None if it failed.
        schedule: how it is to be computed; None if nothing was chosen.
        time: of one execution, measured or modelled.
        kernel: the kernel; None before code generation, or if that failed.
        reason: why it isn't fused; None if it is.
    """

    traffic: Traffic
    derivation: Derivation | None = None
    schedule: Schedule | None = None
    time: Time | None = None
    kernel: Kernel | None = None
    reason: Reason | None = None


def plan(cascade: Cascade, options: CompileOptions) -> Outcome:
    """Derive a canonical cascade (see :mod:`redfuser.cascade.canonical`) and choose its schedule."""
    from redfuser.algebra import derive
    from redfuser.tile.traffic import traffic
    from redfuser.tuning.cost import modelled_us

    moved = traffic(cascade)
    derivation: Derivation | None = None
    try:
        precise = with_precision(cascade)
        derivation = derive(precise, options.numerics)
        schedule = _choose(precise, derivation, options.target)
    except Exception as failure:
        return Outcome(moved, derivation, reason=_reason(failure))
    return Outcome(moved, derivation, schedule, Time(modelled_us(moved, options.target), "modelled"))


def _choose(cascade: Cascade, derivation: Derivation, target: Target) -> Schedule:
    """The untuned schedule; for a GPU, which has no code generator yet, the strategy alone."""
    from redfuser.tile import default_schedule

    if isinstance(target, CpuTarget):
        return default_schedule(cascade, derivation, target).schedule
    return Schedule("single-segment" if derivation.incremental else "resident")


def with_precision(cascade: Cascade) -> Cascade:
    """The cascade in the precision it is computed in: never less than its types say (METHOD §4)."""
    from redfuser.cascade.centre import sharpen_centres
    from redfuser.cascade.widen import widen

    return sharpen_centres(widen(cascade))


def fuse(cascade: Cascade, name: str, options: CompileOptions) -> Outcome:
    """Plan, build, generate and check one canonical cascade.

    Args:
        name: of the kernel, unique in the module.
    """
    outcome, target = plan(cascade, options), options.target
    if outcome.derivation is None or outcome.schedule is None or not isinstance(target, CpuTarget):
        return outcome
    try:
        kernel = _generate(cascade, name, outcome.derivation, outcome.schedule, target, options.seed)
    except Exception as failure:
        return replace(outcome, schedule=None, time=None, reason=_reason(failure))
    if kernel.error is not None and not kernel.error.passed:
        reason = Reason("check-failed", "the kernel's numbers don't meet the accuracy rule", str(kernel.error))
        return replace(outcome, schedule=None, time=None, reason=reason)
    return replace(outcome, kernel=kernel)


def _generate(
    cascade: Cascade, name: str, derivation: Derivation, schedule: Schedule, target: CpuTarget, seed: int
) -> Kernel:
    from redfuser.codegen.cpu import check_kernel, generate, resources
    from redfuser.tile import build, verify

    program = build(with_precision(cascade), derivation, schedule, name)
    verify(program)
    function = generate(program, target)
    used = resources(function, target)
    return Kernel(program, function, used, check_kernel(program, function, target, seed))


def _reason(failure: Exception) -> Reason:
    """A stage's own reason where it gave one; otherwise what it said."""
    reason = getattr(failure, "reason", None)
    if isinstance(reason, Reason):
        return reason
    text = " ".join(str(failure).split()) or type(failure).__name__
    return Reason("generation-failed", "no kernel could be generated", f"{type(failure).__name__}: {text[:400]}")
