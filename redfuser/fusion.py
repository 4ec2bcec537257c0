"""One cascade from algebra to machine code, or the reason why it stays unfused. May import every stage.

Fusion may fail, compilation may not: whatever goes wrong in a stage here becomes a reason in the report, which is
why this file alone catches every exception.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from redfuser.algebra import Memo
from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Kernel, backend_for
from redfuser.options import CompileOptions
from redfuser.reason import Reason
from redfuser.report.value import Time, Traffic
from redfuser.tile.ir import Schedule


@dataclass(frozen=True)
class Outcome:
    """What became of one canonical cascade.

    Args:
        traffic: compulsory memory traffic, fused and unfused.
        precise: the cascade as it was derived, in the precision it is computed in.
        derivation: the algebra's verdict; None if it failed.
        schedule: how it is to be computed; None if nothing was chosen.
        time: of one execution, measured or modelled.
        kernel: the kernel; None before code generation, or if that failed.
        reason: why it isn't fused; None if it is.
    """

    traffic: Traffic
    precise: Cascade | None = None
    derivation: Derivation | None = None
    schedule: Schedule | None = None
    time: Time | None = None
    kernel: Kernel | None = None
    reason: Reason | None = None


def plan(cascade: Cascade, options: CompileOptions, memo: Memo | None = None) -> Outcome:
    """Derive a canonical cascade (see :mod:`redfuser.cascade.canonical`) and choose its schedule.

    Args:
        memo: of the whole model, as for :func:`redfuser.algebra.derive`.
    """
    from redfuser.algebra import derive
    from redfuser.tile.traffic import traffic
    from redfuser.tuning.cost import modelled_us

    outcome = Outcome(traffic(cascade))
    try:
        outcome = replace(outcome, precise=(precise := with_precision(cascade)))
        outcome = replace(outcome, derivation=(derivation := derive(precise, options.numerics, memo)))
        schedule = backend_for(options.target).schedule(precise, derivation)
    except Exception as failure:
        return replace(outcome, reason=_reason(failure))
    return replace(outcome, schedule=schedule, time=Time(modelled_us(outcome.traffic, options.target), "modelled"))


def with_precision(cascade: Cascade) -> Cascade:
    """The cascade in the precision it is computed in: never less than its types say (METHOD §4)."""
    from redfuser.cascade.centre import sharpen_centres
    from redfuser.cascade.widen import widen

    return sharpen_centres(widen(cascade))


def fuse(cascade: Cascade, name: str, options: CompileOptions, memo: Memo | None = None) -> Outcome:
    """Plan, build, generate and check one canonical cascade.

    Args:
        name: of the kernel, unique in the module.
        memo: as for :func:`plan`.
    """
    outcome = plan(cascade, options, memo)
    if outcome.precise is None or outcome.derivation is None or outcome.schedule is None:
        return outcome
    try:
        kernel = _generate(outcome.precise, name, outcome.derivation, outcome.schedule, options)
    except Exception as failure:
        return replace(outcome, schedule=None, time=None, reason=_reason(failure))
    if kernel.error is not None and not kernel.error.passed:
        reason = Reason("check-failed", "the kernel's numbers don't meet the accuracy rule", str(kernel.error))
        return replace(outcome, schedule=None, time=None, reason=reason)
    return replace(outcome, kernel=kernel)


def _generate(
    cascade: Cascade, name: str, derivation: Derivation, schedule: Schedule, options: CompileOptions
) -> Kernel:
    from redfuser.tile import build, verify

    program = build(cascade, derivation, schedule, name)
    verify(program)
    return backend_for(options.target).generate(program, options.seed)


def _reason(failure: Exception) -> Reason:
    """A stage's own reason where it gave one; otherwise what it said."""
    reason = getattr(failure, "reason", None)
    if isinstance(reason, Reason):
        return reason
    text = " ".join(str(failure).split()) or type(failure).__name__
    return Reason("generation-failed", "no kernel could be generated", f"{type(failure).__name__}: {text[:400]}")
