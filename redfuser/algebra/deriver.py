"""Derive one cascade: read, prove, write the recurrences, check them."""

from __future__ import annotations

from dataclasses import replace

from redfuser.algebra.budget import Budget, NotFusible
from redfuser.algebra.certificates import certificate, witnesses
from redfuser.algebra.certificates.bounds import rounding_error
from redfuser.algebra.derivation import Bound, Derivation, Witness
from redfuser.algebra.formulas.assumptions import signs
from redfuser.algebra.formulas.printing import NotPrintable
from redfuser.algebra.proofs.analysis import Analysis, analyse
from redfuser.algebra.proofs.rounding import EXACT, REORDERED
from redfuser.algebra.recurrences.bases import needs
from redfuser.algebra.recurrences.corrections import vanishing
from redfuser.algebra.recurrences.recurrence import recurrences
from redfuser.cascade.model import Cascade
from redfuser.expr import Tensor
from redfuser.extents import most


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
    try:
        items = recurrences(analyses, cascade)
    except NotPrintable as reason:
        raise NotFusible("not-printable", "no operator computes a part of the correction", str(reason)) from reason
    form = "rank-1" if all(len(item.state) == 1 for item in items) else "finite-rank"
    derivation = Derivation(cascade.name, form, items, exactness, certificate.symbolic(analyses))
    if exactness == REORDERED:
        derivation = replace(derivation, bounds=_bounds(cascade))
    return _checked(cascade, derivation, _masked(cascade, analyses, derivation))


def _bounds(cascade: Cascade) -> tuple[Bound, ...]:
    errors = {item.result.name: rounding_error(item, cascade) for item in cascade.reductions}
    return tuple(Bound(name, error, 0.0) for name, error in errors.items() if error is not None)


def analyses_of(cascade: Cascade, exactness: str) -> tuple[Analysis, ...]:
    """The proof about each reduction.

    Raises:
        NotFusible: one of them has no incremental form of this exactness, or none was proved.
    """
    budget, sign = Budget(), signs(cascade)
    return tuple(analyse(r, cascade, sign, budget, exactness == REORDERED) for r in cascade.reductions)


def _checked(cascade: Cascade, derivation: Derivation, masked: frozenset[str]) -> Derivation:
    """With the float64 check, of these very recurrences on the small form of the cascade."""
    found: list[Witness] = []
    bounds = derivation.bounds
    for length in dict.fromkeys(min(length, most(cascade.axis.extent)) for length in witnesses.LENGTHS):
        small = witnesses.Small(cascade, length)
        cut_down = small.derivation(derivation)
        local = [replace(bound, element=small.expr(bound.element)) for bound in bounds]
        tensors = witnesses.data(small.cascade, masked)
        found += certificate.check(small.cascade, cut_down, tensors, witnesses.scenarios(small.cascade, masked))
        kept = [certificate.check_bound(small.cascade, cut_down, tensors, bound) for bound in local]
        bounds = tuple(replace(bound, share=seen.share) for bound, seen in zip(bounds, kept, strict=True))
    return replace(derivation, witnesses=tuple(found), bounds=bounds)


def _masked(cascade: Cascade, analyses: tuple[Analysis, ...], derivation: Derivation) -> frozenset[str]:
    """Names of extrema that only enter where a masked element vanishes, as in ``exp(s - m)``.

    Their scores may be infinite. Elsewhere an infinite score makes the unfused cascade compute ``∞ - ∞``, at places
    where the recurrence need not.
    """
    extrema = {r.result for r in cascade.reductions if r.combiner in ("max", "min")}
    for analysis, item in zip(analyses, derivation.recurrences, strict=True):
        elements = tuple(part.element for part in item.state[: analysis.closure.rank])
        harmless = {r.result for r in vanishing(analysis, elements, cascade, needs(analyses))}
        extrema -= analysis.streamed_results - harmless
        if analysis.separation.transform != "mul":
            extrema -= analysis.deferred_results
    streamed = frozenset[Tensor]().union(*(analysis.streamed_results for analysis in analyses))
    return frozenset(tensor.name for tensor in streamed & extrema)
