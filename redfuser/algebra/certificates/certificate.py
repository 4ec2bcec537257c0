"""The certificate: which identities were proved, by what, and that the recurrences compute the cascade.

The float64 check runs the cascade unfused and by its recurrences over :mod:`witnesses`, in tiles of several sizes
and merged at several cuts. Each reduction is compared given the same earlier results, so that one cancellation
doesn't count against all that follow. NaNs and infinities must be in the same places, except that the recurrences
may stay finite where only the size of finite data makes the unfused cascade overflow. Finite values must agree
within ``TOLERANCE`` of the sum of the elements' magnitudes, also as they would be were the earlier results off by
``_NUDGE``: the scale at which a re-ordered sum of elements, themselves taken from rounded results, differs. Where the
last places of those results matter more than that, as in exp(s - (log t + m)) with m = -1e9, what they move is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from redfuser.algebra.budget import NotFusible
from redfuser.algebra.certificates.replay import Replay, reduced
from redfuser.algebra.certificates.witnesses import SCENARIOS
from redfuser.algebra.derivation import Bound, Derivation, Proof, Witness
from redfuser.algebra.monoids import pair
from redfuser.algebra.proofs.analysis import Analysis
from redfuser.algebra.proofs.rounding import EXACT, unrounded
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Tensor
from redfuser.expr.evaluate import evaluate, open_mesh

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-9
FLOAT = "float64"
_NUDGE, _LAST_PLACES = 1e-6, 1e-15
#: errors below this part of 1 are never counted: the data are of order 1
_FLOOR = 1e-3


def symbolic(analyses: tuple[Analysis, ...]) -> tuple[Proof, ...]:
    """The identities and laws that the analyses rest on."""
    proofs = []
    for analysis in analyses:
        name, separation = analysis.reduction.result.name, analysis.separation
        if separation.entangled:
            proofs.append(Proof(f"{name}: f(x,D') = M(D,D')·f(x,D), rank {analysis.closure.rank}", "SymPy"))
        elif separation.identity:
            proofs.append(Proof(f"{name}: {separation.identity}", "SymPy"))
        law = pair(analysis.reduction.combiner, separation.transform)
        if law is not None and (separation.identity or separation.entangled):
            proofs.append(Proof(f"{name}: {law.law}", "monoid table"))
        if analysis.finish is not None:
            proofs.append(Proof(f"{name}: F(x,D) increases with x, and so selects what x does", "signs"))
        elif analysis.map != analysis.reduction.map:
            proofs.append(Proof(f"{name}: a NaN among its weights is a NaN in their sum", "guard proof"))
    return tuple(proofs)


def partitions(length: int) -> tuple[tuple[str, tuple[tuple[range, ...], ...]], ...]:
    """Ways to cut an axis: name, segments of tiles."""

    def tiles(start: int, stop: int, size: int) -> tuple[range, ...]:
        return tuple(range(at, min(at + size, stop)) for at in range(start, stop, size))

    streams = [(f"tiles of {size}", (tiles(0, length, size),)) for size in (1, 4, length) if size <= length]
    cuts = [(1, (1,)), (length // 2, (2, 5)), (length - 1, (3,))]
    merges = [
        (f"segments cut at {cut}, tiles of {size}", (tiles(0, cut, size), tiles(cut, length, size)))
        for cut, sizes in cuts
        for size in sizes
        if 0 < cut < length
    ]
    return (*streams, *merges)


def check(
    cascade: Cascade, derivation: Derivation, tensors: dict[Tensor, Array], scenarios: tuple[str, ...]
) -> tuple[Witness, ...]:
    """Compare the recurrences of ``derivation`` with ``cascade`` as it stands, on ``tensors``.

    Args:
        cascade: a small one, its first row axis counting scenarios.
        derivation: of that cascade. With reordered rounding the two must agree apart from the roundings.
        scenarios: those to report; the others hold no data of their kind.

    Raises:
        NotFusible: ``witness-failed``, with the scenario, the cut and the two values.
    """
    strict = derivation.exactness == EXACT
    if not strict:
        cascade, derivation = unrounded(cascade, derivation)
    everywhere = tuple(name for name in SCENARIOS if strict and not name.startswith("large"))
    worst = np.zeros(len(SCENARIOS))
    for partition, reduction, found, expected, values in _pairs(cascade, derivation, tensors):
        error = _error(found, expected, _scale(reduction, values, frozenset(r.result for r in cascade.reductions)))
        lenient = np.array([name not in everywhere for name in SCENARIOS]).reshape(-1, *(1,) * (error.ndim - 1))
        error = np.where(~np.isfinite(expected) & lenient, 0.0, error)
        if not np.all((error <= TOLERANCE) & np.isfinite(error)):
            raise _failure(reduction, partition, found, expected, error)
        worst = np.maximum(worst, error.reshape(len(SCENARIOS), -1).max(axis=1, initial=0.0))
    errors = dict(zip(SCENARIOS, worst.tolist(), strict=True))
    return tuple(Witness(name, cascade.axis.extent, errors[name]) for name in scenarios)


def check_bound(cascade: Cascade, derivation: Derivation, tensors: dict[Tensor, Array], bound: Bound) -> Bound:
    """The same comparison with the roundings, against ``bound``; gives it with the share that was met.

    Raises:
        NotFusible: ``rounding-not-bounded``, if it isn't kept.
    """
    share = bound.share
    for partition, reduction, found, expected, values in _pairs(cascade, derivation, tensors):
        if reduction.result.name != bound.result:
            continue
        limit = reduced(replace(reduction, combiner="sum"), bound.element, values, range(reduction.over.extent), FLOAT)
        with np.errstate(all="ignore"):
            excess = np.abs(found - expected) - TOLERANCE * np.abs(expected)
            part = np.where(np.isfinite(excess) & (excess > 0), excess / limit, 0.0)
        if not np.all(part <= 1):
            raise NotFusible("rounding-not-bounded", f"{bound.result} passes its bound on {partition}", str(part.max()))
        share = max(share, float(part.max(initial=0.0)))
    return replace(bound, share=share)


def _pairs(
    cascade: Cascade, derivation: Derivation, tensors: dict[Tensor, Array]
) -> Iterator[tuple[str, Reduction, Array, Array, dict[Tensor, Array]]]:
    """Each reduction folded and merged at every partition, beside its value from the same earlier results."""
    replay = Replay(cascade, derivation, tensors)
    for name, segments in partitions(cascade.axis.extent):
        found = replay.run(segments)
        values = {**tensors, **found}
        for reduction in cascade.reductions:
            expected = reduced(reduction, reduction.map, values, range(cascade.axis.extent), FLOAT)
            result, expected = (_values(reduction, array) for array in (found[reduction.result], expected))
            yield name, reduction, result, expected, values


def _values(reduction: Reduction, array: Array) -> Array:
    """What is compared: of pairs the values, of a list the places that the elements fill.

    Positions belong to their values; which one wins a tie is a law of the combiner.
    """
    if reduction.rank is not None:
        array = array[..., : reduction.over.extent]
    return array.real if array.dtype.kind == "c" else array


def _scale(reduction: Reduction, values: dict[Tensor, Array], results: frozenset[Tensor]) -> Array:
    """Magnitude against which an error counts."""
    axes = (*reduction.element_axes, reduction.over)
    shape = tuple(a.extent for a in axes)
    total = np.full(shape[:-1], _FLOOR)
    fold = np.sum if reduction.combiner == "sum" else np.max

    def elements(nudge: float) -> Array:
        nudged = {t: value * (1 + nudge) if t in results else value for t, value in values.items()}
        return np.broadcast_to(evaluate(reduction.map, nudged, open_mesh(axes), FLOAT).real, shape)

    with np.errstate(all="ignore"):
        exact = elements(0.0)
        for size in (np.abs(exact), np.abs(elements(_NUDGE))):
            sizes = fold(size, axis=-1)
            total = total + np.where(np.isfinite(sizes), sizes, 1.0)
        moved = fold(np.abs(elements(_LAST_PLACES) - exact), axis=-1)
        total = total + np.where(np.isfinite(moved), moved / TOLERANCE, 0.0)
    return total if reduction.rank is None else total[..., np.newaxis]


def _error(found: Array, expected: Array, scale: Array) -> Array:
    """Relative error; infinite where a NaN or an infinity is in one only."""
    finite = np.isfinite(found) & np.isfinite(expected)
    same = finite | (np.isnan(found) & np.isnan(expected)) | (found == expected)
    with np.errstate(all="ignore"):
        error = np.where(finite, np.abs(found - expected) / scale, 0.0)
    return np.where(same, error, np.inf)


def _failure(reduction: Reduction, partition: str, found: Array, expected: Array, error: Array) -> NotFusible:
    where = np.unravel_index(int(np.argmax(error)), error.shape)
    scenario = tuple(SCENARIOS)[int(where[0])]
    text = f"{reduction.result.name} differs from the unfused value on {scenario} data, {partition}"
    witness = f"{float(found[where]):.17g} instead of {float(expected[where]):.17g}"
    return NotFusible("witness-failed", text, witness)
