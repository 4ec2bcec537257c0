"""Report entries from the values of the stages."""

from __future__ import annotations

from redfuser.algebra.derivation import Component, Derivation, Recurrence
from redfuser.cascade.model import IDENTITIES, Reduction
from redfuser.expr import Axis
from redfuser.report.value import (
    DerivationEntry,
    ProofEntry,
    RecurrenceEntry,
    ReductionEntry,
    StateEntry,
    TargetInfo,
)
from redfuser.targets import CpuTarget, Target


def describe_target(target: Target) -> TargetInfo:
    """The target as the report names it."""
    if isinstance(target, CpuTarget):
        return TargetInfo(target.name, target.kind, target.arch, target.features, target.cores)
    return TargetInfo(target.name, target.kind, target.arch, (), target.multiprocessors)


def describe_reduction(reduction: Reduction) -> ReductionEntry:
    """A reduction with its axes and map as text."""
    return ReductionEntry(
        name=reduction.result.name,
        op=reduction.combiner,
        axes=tuple(map(_axis, reduction.axes)),
        over=_axis(reduction.over),
        map=str(reduction.map),
    )


def describe_derivation(derivation: Derivation) -> DerivationEntry:
    """A derivation with its expressions as text."""
    return DerivationEntry(
        form=derivation.form,
        recurrences=tuple(map(_recurrence, derivation.recurrences)),
        proofs=tuple(ProofEntry(proof.claim, proof.by, proof.error) for proof in derivation.proofs),
        obstacle=derivation.obstacle,
    )


def _axis(axis: Axis) -> str:
    return f"{axis.name}<{axis.extent}"


def _recurrence(recurrence: Recurrence) -> RecurrenceEntry:
    return RecurrenceEntry(
        result=recurrence.result.name,
        transform=recurrence.transform,
        state=tuple(map(_component, recurrence.state)),
        base=None if recurrence.base is None else str(recurrence.base),
        finish=str(recurrence.finish),
    )


def _component(component: Component) -> StateEntry:
    return StateEntry(
        name=component.tensor.name,
        combiner=component.combiner,
        identity=f"{IDENTITIES[component.combiner]:g}",
        element=str(component.element),
        correction=tuple(None if factor is None else str(factor) for factor in component.correction),
    )
