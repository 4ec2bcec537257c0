"""Report entries from the values of the stages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from redfuser.algebra.derivation import Component, Derivation, Recurrence
from redfuser.cascade.detect import Boundary, Rejected
from redfuser.cascade.graph import Definition
from redfuser.cascade.kinds import classify
from redfuser.cascade.model import IDENTITIES, Cascade, Reduction
from redfuser.expr import Axis, Expr, Load, Tensor, load, transform
from redfuser.reason import Reason
from redfuser.report.value import (
    BoundaryEntry,
    CascadeEntry,
    DerivationEntry,
    NumericError,
    ProofEntry,
    RecurrenceEntry,
    ReductionEntry,
    StateEntry,
    TargetInfo,
    Time,
    Traffic,
)
from redfuser.targets import CpuTarget, Target
from redfuser.tile.ir import Schedule


def describe_target(target: Target) -> TargetInfo:
    """The target as the report names it."""
    if isinstance(target, CpuTarget):
        return TargetInfo(target.name, target.kind, target.arch, target.features, target.cores)
    return TargetInfo(target.name, target.kind, target.arch, (), target.multiprocessors)


def describe_cascade(
    cascade: Cascade,
    derivation: Derivation | None,
    schedule: Schedule | None,
    traffic: Traffic,
    time: Time | None,
    error: NumericError | None,
    reason: Reason | None,
    boundaries: Iterable[Boundary] = (),
) -> CascadeEntry:
    """A cascade and what became of it; it is fused exactly where there is no reason against it."""
    return CascadeEntry(
        id=cascade.name,
        kind=classify(cascade),
        verdict="fused" if reason is None else "unfused",
        reason=reason,
        onnx_nodes=cascade.onnx_nodes,
        reductions=tuple(map(describe_reduction, (*cascade.producers, *cascade.reductions))),
        derivation=describe_derivation(derivation, cascade.inputs) if derivation else None,
        exactness=derivation.exactness if derivation and reason is None else None,
        strategy=schedule.strategy if schedule else "unfused",
        schedule=_flat(schedule) if schedule else {},
        traffic=traffic,
        time=time,
        error=error,
        boundaries=tuple(BoundaryEntry(boundary.onnx_nodes, boundary.reason) for boundary in boundaries),
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
                map=_text(member.body),
            )
            for member in members
        ),
    )


def _flat(schedule: Schedule) -> dict[str, bool | int | float | str]:
    """The schedule's choices as scalars: tile sizes under ``tile_AXIS``."""
    return {
        **{f"tile_{name}": size for name, size in schedule.tiles},
        "segments": schedule.segments,
        "lanes": schedule.lanes,
        **dict(schedule.options),
    }


def describe_reduction(reduction: Reduction) -> ReductionEntry:
    """A reduction with its axes and map as text."""
    return ReductionEntry(
        name=reduction.result.name,
        op=reduction.combiner,
        axes=tuple(map(_axis, reduction.axes)),
        over=_axis(reduction.over),
        map=_text(reduction.map),
    )


def describe_derivation(derivation: Derivation, inputs: Sequence[Tensor] = ()) -> DerivationEntry:
    """A derivation as it is written on paper.

    Args:
        inputs: what the canonical inputs ``x0, x1, …`` are called in the model.
    """
    writer = _Writer(
        {f"x{number}": tensor.name for number, tensor in enumerate(inputs)},
        frozenset(recurrence.result.name for recurrence in derivation.recurrences),
    )
    return DerivationEntry(
        form=derivation.form,
        recurrences=tuple(map(writer.recurrence, derivation.recurrences)),
        proofs=tuple(ProofEntry(proof.claim, proof.by, proof.error) for proof in derivation.proofs),
        obstacle=derivation.obstacle,
    )


@dataclass(frozen=True)
class _Writer:
    """Writes expressions with the model's names for inputs, and results without the axes they always have."""

    inputs: Mapping[str, str]
    results: frozenset[str]

    def recurrence(self, recurrence: Recurrence) -> RecurrenceEntry:
        return RecurrenceEntry(
            result=recurrence.result.name,
            transform=recurrence.transform,
            state=tuple(map(self.component, recurrence.state)),
            base=None if recurrence.base is None else self.text(recurrence.base),
            finish=self.text(recurrence.finish),
        )

    def component(self, component: Component) -> StateEntry:
        return StateEntry(
            name=component.tensor.name,
            combiner=component.combiner,
            identity=f"{IDENTITIES[component.combiner]:g}",
            element=self.text(component.element),
            correction=tuple(None if factor is None else self.text(factor) for factor in component.correction),
        )

    def text(self, expr: Expr) -> str:
        return _text(transform(expr, self.rename))

    def rename(self, node: Expr) -> Expr:
        if not isinstance(node, Load):
            return node
        name = node.tensor.name
        if name.partition(".")[0] in self.results:
            return load(Tensor(name, (), node.dtype))
        return replace(node, tensor=replace(node.tensor, name=self.inputs.get(name, name)))


def _axis(axis: Axis) -> str:
    return f"{axis.name}<{axis.extent}"


def _text(expr: Expr) -> str:
    """The text form without the parentheses that group nothing: around the whole, or around a group of its own."""
    text = f"({expr})"
    opened: list[int] = []
    closes: dict[int, int] = {}
    for position, character in enumerate(text):
        if character == "(":
            opened.append(position)
        elif character == ")":
            closes[opened.pop()] = position
    outer = {start for start, end in closes.items() if closes.get(start + 1) == end - 1}
    dropped = {0, len(text) - 1} | {start + 1 for start in outer} | {closes[start + 1] for start in outer}
    return "".join(character for position, character in enumerate(text) if position not in dropped)
