"""Derive one cascade: read, prove, write the recurrences, check them."""

from __future__ import annotations

from redfuser.algebra import certificate, witnesses
from redfuser.algebra.analysis import Analysis, analyse
from redfuser.algebra.assumptions import signs
from redfuser.algebra.budget import Budget, NotFusible
from redfuser.algebra.derivation import Derivation, Proof
from redfuser.algebra.printing import NotPrintable
from redfuser.algebra.recurrence import recurrences
from redfuser.cascade.model import Cascade
from redfuser.expr import Tensor


def derive_cascade(cascade: Cascade) -> Derivation:
    """The verdict on ``cascade``; what can't be proved or fails its check is ``resident`` with the reason."""
    try:
        analyses = _analyses(cascade)
        derivation = _derivation(cascade, analyses, certificate.symbolic(analyses))
        return Derivation(
            cascade.name,
            derivation.form,
            derivation.recurrences,
            derivation.exactness,
            (*derivation.proofs, *_checked(cascade)),
        )
    except NotFusible as refusal:
        return Derivation(cascade.name, "resident", (), "exact", (), refusal.reason)


def _analyses(cascade: Cascade) -> tuple[Analysis, ...]:
    budget, sign = Budget(), signs(cascade)
    return tuple(analyse(reduction, cascade, sign, budget) for reduction in cascade.reductions)


def _derivation(cascade: Cascade, analyses: tuple[Analysis, ...], proofs: tuple[Proof, ...]) -> Derivation:
    try:
        items = recurrences(analyses, cascade, signs(cascade))
    except NotPrintable as reason:
        raise NotFusible("not-printable", "no operator computes a part of the correction", str(reason)) from reason
    form = "rank-1" if all(len(item.state) == 1 for item in items) else "finite-rank"
    return Derivation(cascade.name, form, items, "exact", proofs)


def _checked(cascade: Cascade) -> tuple[Proof, ...]:
    """The float64 check, on the small form of the cascade derived by the same route."""
    proofs = []
    for length in dict.fromkeys(min(length, cascade.axis.extent) for length in witnesses.LENGTHS):
        reduced = witnesses.small(cascade, length)
        analyses = _analyses(reduced)
        streamed = frozenset[Tensor]().union(*(analysis.streamed_results for analysis in analyses))
        tensors = witnesses.data(reduced, streamed)
        proofs.append(certificate.check(reduced, _derivation(reduced, analyses, ()), tensors))
    return tuple(proofs)
