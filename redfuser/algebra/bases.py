"""Base points: what elements are taken against while the final value isn't known (METHOD §3).

Any base is right, so it is chosen for numerical stability: the running maximum or minimum; for a plain sum the
value it would have if all elements were like those seen so far; for a sum that is itself re-based, its state.
A base is always finite when the data are, also before anything was seen.
"""

from __future__ import annotations

from collections.abc import Callable

from redfuser.algebra import names
from redfuser.algebra.analysis import Analysis
from redfuser.algebra.assumptions import Sign
from redfuser.algebra.printing import times
from redfuser.cascade.model import IDENTITIES, Cascade, Reduction
from redfuser.expr import Const, Expr, Tensor, cast, number, op, substitute


def required(analyses: tuple[Analysis, ...]) -> frozenset[Tensor]:
    """The results that need a base point: those some later map streams, and what their own bases are made of."""
    needed: set[Tensor] = set()
    for analysis in reversed(analyses):
        needed |= analysis.streamed_results
        if analysis.reduction.result in needed and analysis.reduction.combiner in ("sum", "prod"):
            needed |= analysis.deferred_results
    return frozenset(needed)


def counted(analysis: Analysis, needed: frozenset[Tensor]) -> bool:
    """Whether the base of this reduction depends on how many elements were seen."""
    reduction = analysis.reduction
    return reduction.result in needed and reduction.combiner == "sum" and not analysis.separation.streamed


def at_base(expr: Expr, cascade: Cascade) -> Expr:
    """``expr`` with every result of a reduction at its base point."""
    return substitute(expr, {r.value: names.base(r) for r in cascade.reductions})


def base_of(analysis: Analysis, cascade: Cascade, sign: Callable[[Expr], Sign], count: Expr | None) -> Expr:
    """The base point of a reduction, from its running value or its state.

    Args:
        analysis: of the reduction.
        cascade: it belongs to.
        sign: of the cascade's values.
        count: the state's number of elements seen, where :func:`counted`.
    """
    reduction = analysis.reduction
    if reduction.combiner in ("max", "min"):
        return _bounded(reduction)
    estimate: Expr = names.component(reduction, 0)
    dtype = estimate.dtype
    if count is not None:
        share = op("div", number(float(cascade.axis.extent), dtype), op("max", count, number(1.0, dtype)))
        estimate = op("mul", estimate, share)
    if analysis.separation.transform == "mul":
        factor = analysis.separation.factor.xreplace({flag: 0 for flag in analysis.reading.flags})
        leaves = {symbol: at_base(expr, cascade) for symbol, expr in analysis.reading.leaves.items()}
        estimate = estimate if factor == 1 else times(estimate, factor, leaves, dtype)
    if sign(reduction.value).is_nonnegative:
        # It may be divided by, or its logarithm taken.
        zero, one = number(0.0, dtype), number(1.0, dtype)
        estimate = op("select", op("eq", estimate, zero), one, estimate)
    return cast(estimate, reduction.result.dtype)


def _bounded(reduction: Reduction) -> Expr:
    """The running extremum; 0 while it is still the identity."""
    value = reduction.value
    if "float" not in value.dtype:
        return value
    identity = Const(value.dtype, IDENTITIES[reduction.combiner])
    return op("select", op("eq", value, identity), number(0.0, value.dtype), value)
