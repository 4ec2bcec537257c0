"""Report entries from the values of the stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.detection import Boundary, Rejected
from redfuser.cascade.graph import Definition
from redfuser.cascade.kinds import classify
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Const
from redfuser.reason import Reason
from redfuser.report.derivation_entries import ReductionEntry
from redfuser.report.derivations import describe_derivation
from redfuser.report.value import (
    BoundaryEntry,
    CascadeEntry,
    ChoiceEntry,
    NumericError,
    ProductEntry,
    TargetInfo,
    Time,
    Traffic,
)
from redfuser.report.writing import Writer
from redfuser.targets import CpuTarget, Target
from redfuser.tile.ir import Schedule
from redfuser.tuning.record import Record, SpaceRecord


def describe_target(target: Target) -> TargetInfo:
    """The target as the report names it."""
    if isinstance(target, CpuTarget):
        return TargetInfo(target.name, target.kind, target.arch, target.features, target.cores)
    return TargetInfo(target.name, target.kind, target.arch, target.features, target.multiprocessors)


def describe_cascade(
    cascade: Cascade,
    derived: Cascade | None,
    derivation: Derivation | None,
    schedule: Schedule | None,
    traffic: Traffic,
    time: Time | None,
    error: NumericError | None,
    reason: Reason | None,
    boundaries: Iterable[Boundary] = (),
    choice: ChoiceEntry | None = None,
    resources: Mapping[str, int] | None = None,
    products: tuple[str, ...] = (),
    literals: tuple[Const, ...] = (),
) -> CascadeEntry:
    """A cascade and what became of it; it is fused exactly where there is no reason against it.

    Args:
        derived: the canonical cascade that ``derivation`` is of.
        resources: what its kernel uses.
        products: what its kernel's matrix products are computed in.
        literals: numbers of this cascade that are the last inputs of ``derived``.
    """
    names = [*(tensor.name for tensor in cascade.inputs), *map(Writer().factor, literals)]
    return CascadeEntry(
        id=cascade.name,
        kind=classify(cascade),
        verdict="fused" if reason is None else "unfused",
        reason=reason,
        onnx_nodes=cascade.onnx_nodes,
        reductions=tuple(map(describe_reduction, (*cascade.producers, *cascade.reductions, *cascade.epilogues))),
        derivation=describe_derivation(derived, derivation, names) if derived and derivation else None,
        exactness=derivation.exactness if derivation and reason is None else None,
        strategy=schedule.strategy if schedule else "unfused",
        schedule=_flat(schedule) if schedule else {},
        choice=choice,
        traffic=traffic,
        time=time,
        error=error,
        boundaries=tuple(BoundaryEntry(boundary.onnx_nodes, boundary.reason) for boundary in boundaries),
        resources=dict(resources or {}),
        products=products,
    )


def describe_product(
    name: str,
    schedule: Schedule,
    resources: Mapping[str, int],
    choice: ChoiceEntry | None = None,
    time: Time | None = None,
    products: tuple[str, ...] = (),
) -> ProductEntry:
    """Of a matrix product outside every cascade."""
    return ProductEntry(name, schedule.strategy, _flat(schedule), resources, choice, time, products)


def describe_choice(record: Record) -> ChoiceEntry:
    """How a schedule was chosen."""
    told, space = record.told, record.space or SpaceRecord(0, 0)
    return ChoiceEntry(
        timed=record.trials,
        noise=record.noise,
        points=space.points,
        candidates=space.candidates,
        excluded=space.excluded,
        gain=record.gain,
        how="measured" if record.how == "measured" else "rule" if record.space is None else "modelled",
        locked=told.locked,
        why=told.why,
        compiled=told.compiled,
        refused=told.refused,
        next_us=told.next_us,
    )


def describe_rejected(name: str, rejected: Rejected, members: Sequence[Definition]) -> CascadeEntry:
    """A chain of reductions that detection could not cut out of the model."""
    return CascadeEntry(
        id=name,
        kind="other",
        verdict="unfused",
        reason=rejected.reason,
        onnx_nodes=rejected.onnx_nodes,
        reductions=tuple(
            ReductionEntry(
                name=member.tensor.name,
                op=member.combiner,
                axes=tuple(map(_axis, member.axes)),
                over=", ".join(map(_axis, member.reduced)),
                map=Writer().write(member.body),
            )
            for member in members
        ),
    )


def _flat(schedule: Schedule) -> dict[str, bool | int | float | str]:
    """The schedule's choices as scalars: tile sizes under ``tile_AXIS``."""
    return {
        **{f"tile_{name}": size for name, size in schedule.tiles},
        "segments": schedule.segments,
        **({"lanes": schedule.lanes} if schedule.lanes else {}),
        **dict(schedule.options),
    }


def describe_reduction(reduction: Reduction) -> ReductionEntry:
    """A reduction with its axes and map as text."""
    return ReductionEntry(
        name=reduction.result.name,
        op=reduction.combiner,
        axes=tuple(map(_axis, reduction.axes)),
        over=_axis(reduction.over),
        map=Writer().write(reduction.map),
    )


def _axis(axis: Axis) -> str:
    return f"{axis.name}<{axis.extent}"
