"""The certificate: which identities were proved, by what, and that the recurrences compute the cascade.

The float64 check runs the cascade unfused and by its recurrences over :mod:`witnesses`, in tiles of several sizes
and merged at several cuts. Each reduction is compared given the same earlier results, so that one cancellation
doesn't count against all that follow. NaNs and infinities must be in the same places, except that the recurrences
may stay finite where only the size of finite data makes the unfused cascade overflow. Finite values must agree
within ``TOLERANCE`` of the sum of the elements' magnitudes, also as they would be were the earlier results off by
``_NUDGE``: the scale at which a re-ordered sum of elements, themselves taken from rounded results, differs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from redfuser.algebra.analysis import Analysis
from redfuser.algebra.budget import NotFusible
from redfuser.algebra.derivation import Derivation, Proof
from redfuser.algebra.monoids import pair
from redfuser.algebra.replay import Replay, reduced
from redfuser.algebra.rounding import EXACT, unrounded
from redfuser.algebra.witnesses import SCENARIOS
from redfuser.cascade.model import Cascade, Reduction
from redfuser.evaluate import evaluate, open_mesh
from redfuser.expr import Tensor

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-9
_NUDGE = 1e-6
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
        if analysis.map != analysis.reduction.map:
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


def check(cascade: Cascade, derivation: Derivation, tensors: dict[Tensor, Array]) -> tuple[Proof, ...]:
    """Compare the recurrences of ``derivation`` with ``cascade`` as it stands, on ``tensors``.

    Args:
        cascade: a small one, its first row axis counting scenarios.
        derivation: of that cascade. With reordered rounding the two must agree apart from the roundings.

    Raises:
        NotFusible: ``witness-failed``, with the scenario, the cut and the two values.
    """
    length = cascade.axis.extent
    elements = "1 element" if length == 1 else f"{length} elements"
    claim = f"{len(SCENARIOS)} scenarios of {elements}, folded and merged"
    everywhere = tuple(name for name in SCENARIOS if not name.startswith("large"))
    if derivation.exactness == EXACT:
        return (Proof(claim, "float64", _compare(cascade, derivation, tensors, TOLERANCE, everywhere)),)
    apart = _compare(*unrounded(cascade, derivation), tensors, TOLERANCE, ())
    change = _compare(cascade, derivation, tensors, math.inf, everywhere)
    return (
        Proof(f"{claim}, without rounding", "float64", apart),
        Proof(f"{claim}, with rounding", "float64", change),
    )


def _compare(
    cascade: Cascade,
    derivation: Derivation,
    tensors: dict[Tensor, Array],
    tolerance: float,
    strict: tuple[str, ...],
) -> float:
    """The largest error; fails where one is above the tolerance, or a NaN or infinity is in one only.

    Outside the ``strict`` scenarios the recurrences may be finite where the unfused cascade isn't.
    """
    lenient = np.array([name not in strict for name in SCENARIOS])
    replay = Replay(cascade, derivation, tensors)
    results = frozenset(reduction.result for reduction in cascade.reductions)
    worst = 0.0
    for name, segments in partitions(cascade.axis.extent):
        found = replay.run(segments)
        values = {**tensors, **found}
        for reduction in cascade.reductions:
            result = found[reduction.result]
            expected = reduced(reduction, reduction.map, values, range(cascade.axis.extent), "float64")
            error = _error(result, expected, _scale(reduction, values, results))
            excused = ~np.isfinite(expected) & lenient.reshape(-1, *(1,) * (error.ndim - 1))
            error = np.where(excused, 0.0, error)
            if not np.all((error <= tolerance) & np.isfinite(error)):
                raise _failure(reduction, name, result, expected, error)
            worst = max(worst, float(error.max(initial=0.0)))
    return worst


def _scale(reduction: Reduction, values: dict[Tensor, Array], results: frozenset[Tensor]) -> Array:
    """Magnitude against which an error counts."""
    mesh = open_mesh((*reduction.axes, reduction.over))
    shape = (*reduction.result.shape, reduction.over.extent)
    total = np.full(reduction.result.shape, _FLOOR)
    with np.errstate(all="ignore"):
        for nudge in (0.0, _NUDGE):
            nudged = {t: value * (1 + nudge) if t in results else value for t, value in values.items()}
            elements = np.broadcast_to(np.abs(evaluate(reduction.map, nudged, mesh, "float64")), shape)
            sizes = np.sum(elements, axis=-1) if reduction.combiner == "sum" else np.max(elements, axis=-1)
            total = total + np.where(np.isfinite(sizes), sizes, 1.0)
    return total


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
