"""Derive one cascade: read, prove, write the recurrences, check them."""

from __future__ import annotations

import sympy

from redfuser.algebra import certificate, witnesses
from redfuser.algebra.analysis import Analysis, analyse
from redfuser.algebra.assumptions import signs
from redfuser.algebra.budget import Budget, NotFusible
from redfuser.algebra.derivation import Derivation, Proof
from redfuser.algebra.printing import NotPrintable
from redfuser.algebra.recurrence import recurrences
from redfuser.algebra.rounding import BOUND, EXACT, REORDERED
from redfuser.cascade.model import Cascade
from redfuser.expr import Tensor


def derive_cascade(cascade: Cascade, relaxed: bool = False) -> Derivation:
    """The verdict on ``cascade``; what can't be proved or fails its check is ``resident`` with the reason.

    Args:
        relaxed: round against a running scale where there is no exact form.
    """
    try:
        return _proved(cascade, EXACT)
    except NotFusible as refusal:
        resident = Derivation(cascade.name, "resident", (), EXACT, (), refusal.reason)
    if not relaxed:
        return resident
    try:
        return _proved(cascade, REORDERED)
    except NotFusible:
        # The exact form's obstacle is what the user should read.
        return resident


def _proved(cascade: Cascade, exactness: str) -> Derivation:
    analyses = analyses_of(cascade, exactness)
    proofs = certificate.symbolic(analyses)
    if exactness == REORDERED:
        proofs = (*proofs, Proof(BOUND, "rounding bound"))
    return _written(cascade, analyses, exactness, (*proofs, *_checked(cascade, exactness)))


def analyses_of(cascade: Cascade, exactness: str) -> tuple[Analysis, ...]:
    """The proof about each reduction.

    Raises:
        NotFusible: one of them has no incremental form of this exactness, or none was proved.
    """
    budget, sign = Budget(), signs(cascade)
    return tuple(analyse(r, cascade, sign, budget, exactness == REORDERED) for r in cascade.reductions)


def _written(
    cascade: Cascade, analyses: tuple[Analysis, ...], exactness: str, proofs: tuple[Proof, ...] = ()
) -> Derivation:
    try:
        items = recurrences(analyses, cascade)
    except NotPrintable as reason:
        raise NotFusible("not-printable", "no operator computes a part of the correction", str(reason)) from reason
    form = "rank-1" if all(len(item.state) == 1 for item in items) else "finite-rank"
    return Derivation(cascade.name, form, items, exactness, proofs)


def _checked(cascade: Cascade, exactness: str) -> tuple[Proof, ...]:
    """The float64 check, on the small form of the cascade derived by the same route."""
    proofs: list[Proof] = []
    for length in dict.fromkeys(min(length, cascade.axis.extent) for length in witnesses.LENGTHS):
        small = witnesses.small(cascade, length)
        analyses = analyses_of(small, exactness)
        tensors = witnesses.data(small, _masked(small, analyses))
        proofs += certificate.check(small, _written(small, analyses, exactness), tensors)
    return tuple(proofs)


def _masked(cascade: Cascade, analyses: tuple[Analysis, ...]) -> frozenset[Tensor]:
    """Extrema that only enter as ``exp(s - m)``: their scores may be infinite.

    Elsewhere an infinite score makes the unfused cascade compute ``∞ - ∞``, at places where the recurrence need not.
    """
    extrema = {r.result for r in cascade.reductions if r.combiner in ("max", "min")}
    for analysis in analyses:
        exponential = all(entry == 0 or entry.has(sympy.exp) for entry in analysis.closure.matrix)
        if not exponential:
            extrema -= analysis.streamed_results
        if analysis.separation.transform != "mul":
            extrema -= analysis.deferred_results
    streamed = frozenset[Tensor]().union(*(analysis.streamed_results for analysis in analyses))
    return streamed & extrema
