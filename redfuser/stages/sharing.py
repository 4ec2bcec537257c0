"""Cascades that differ in numbers alone share a kernel, where it is the kernel that each would have had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from redfuser.algebra import Memo
from redfuser.cascade.canonical import Canonical, canonicalise
from redfuser.cascade.literals import lift, literal_name
from redfuser.cascade.model import Cascade
from redfuser.options import CompileOptions
from redfuser.progress import Progress
from redfuser.reason import Reason
from redfuser.stages.analysis import Analysis
from redfuser.stages.fusion import Outcome, plan


def share(analysis: Analysis, options: CompileOptions, memo: Memo, progress: Progress) -> Analysis:
    """The analysis with one form for cascades that differ in numbers alone, as far as no proof needs the numbers.

    Args:
        memo: of the whole model, as for :func:`redfuser.stages.fusion.plan`.
        progress: is told of those that keep forms of their own.
    """
    from tvm import relax

    groups: dict[Cascade, dict[str, Canonical]] = {}
    for name, form in lift(analysis.canonical).items():
        groups.setdefault(form.cascade, {})[name] = form
    canonical, values = dict(analysis.canonical), dict(analysis.values)
    for common, members in groups.items():
        own = {_proof_relevant(form): analysis.canonical[name].cascade for name, form in members.items()}
        reason = why_apart(common, tuple(own.values()), options, memo)
        if reason is None:
            canonical |= members
            literals = {literal for form in members.values() for literal in form.literals}
            values |= {literal_name(literal): relax.const(literal.value, literal.dtype) for literal in literals}
        else:
            progress.note(f"{', '.join(members)} share no kernel: {reason}")
    return replace(analysis, canonical=canonical, values=values)


def part(analysis: Analysis, outcomes: Mapping[Cascade, Outcome], progress: Progress) -> Analysis:
    """The analysis with forms of their own for cascades of which the shared form got no kernel.

    Args:
        outcomes: of every form.
        progress: is told of them.
    """
    own = {}
    for cascade in analysis.detection.cascades:
        form = analysis.canonical[cascade.name]
        outcome = outcomes[form.cascade]
        if form.literals and outcome.record is None:
            own[cascade.name] = canonicalise(cascade)
            progress.note(f"{cascade.name} is tried with its own numbers written into its kernel: {outcome.reason}")
    return replace(analysis, canonical={**analysis.canonical, **own})


def why_apart(
    common: Cascade, members: tuple[Cascade, ...], options: CompileOptions, memo: Memo | None = None
) -> Reason | None:
    """Why cascades can't share the form in which the numbers that tell them apart are inputs; None if they can.

    Args:
        common: that form.
        members: some of the cascades, canonical.
        memo: as for :func:`share`.
    """
    memo = {} if memo is None else memo
    shared = plan(common, "shared", options, memo=memo)
    for member in members:
        alone = plan(member, "alone", options, memo=memo)
        if (reason := alone.reason or shared.reason) is not None:
            return reason
        decided = _decided(shared)
        for what, value in _decided(alone).items():
            if value != decided[what]:
                witness = f"{value} where they are known, {decided[what]} where not"
                return Reason("numbers-needed", f"the {what} depends on the numbers in them", witness)
    return None


def _decided(outcome: Outcome) -> dict[str, object]:
    """What is settled about a cascade that is to be fused, apart from the numbers in it."""
    derivation, precise, schedule = outcome.derivation, outcome.precise, outcome.schedule
    assert derivation is not None and precise is not None and schedule is not None
    return {
        "derivation": f"{derivation.form}, {derivation.exactness}",
        "obstacle": derivation.obstacle.code if derivation.obstacle is not None else None,
        "state": [len(recurrence.state) for recurrence in derivation.recurrences],
        "precision": [r.result.dtype for r in (*precise.producers, *precise.reductions, *precise.epilogues)],
        "strategy": schedule.strategy,
    }


def _proof_relevant(form: Canonical) -> tuple[tuple[bool, bool], ...]:
    """What a proof may need of the numbers in a cascade: their signs, and whether they are units."""
    return tuple((literal.value < 0, abs(literal.value) == 1) for literal in form.literals)
