"""Base points: what elements are taken against while the final value isn't known (METHOD §3).

Any base is right, so it is chosen for numerical stability: the running maximum or minimum; for a plain sum the
value it would have if all elements were like those seen so far; for a sum that is itself re-based, its state.
A base is always finite when the data are, also before anything was seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.algebra import names
from redfuser.algebra.formulas.printing import times, to_expr
from redfuser.algebra.proofs.analysis import Analysis
from redfuser.cascade.model import IDENTITIES, Cascade, Reduction
from redfuser.expr import Const, Expr, Load, Op, Tensor, cast, index, loads, number, op, substitute, walk

_SINGULAR_AT_ZERO = frozenset({"div", "log", "log2", "rsqrt"})

#: The base of a scale that elements are rounded by, while it is 0 or nothing was seen; 1 in other types. It is never
#: the value of anything: the first scale that isn't 0 takes its place, and what was summed until then is multiplied by
#: (this / that) or its square. The sums are 0 then where the scale is the elements' own largest magnitude, so that all
#: that matters is that the factor is finite, down to the smallest subnormal number: 1 / 2**-149 is not, and 0·∞ is NaN.
#: The square of 2**-86 / 2**-149 is 2**126; of 2**-570 / 2**-1074, 2**1008. Where the scale is another tensor's, the
#: sums needn't be 0: small as it is, this isn't coarser than the scale to come, as the bound of the error asks. It may
#: not be smaller: parted into the levels of an integer of 32 bits it must be a normal number, 2**-117. Sums of bfloat16
#: are float32, and its smallest number is 2**-133. In float16 a part of a small number would be 0, and x/0 no number;
#: there (1 / 2**-24)**2 is far from infinite in float32, where the sums are.
_BEFORE_A_SCALE = {"float32": 2.0**-86, "bfloat16": 2.0**-86, "float64": 2.0**-570}


@dataclass(frozen=True)
class Needs:
    """What is asked of base points.

    Args:
        based: results that need one: those some later map streams, and what their own bases are made of.
        divided: results that a map divides by, or takes the logarithm of: their base isn't 0.
        compared: results that maps only compare with: their base is the running value, infinite or not.
        moved: extrema that an earlier result is applied to at the end: their base isn't their running value.
        scales: those of the divisors whose running value elements are rounded against.
    """

    based: frozenset[Tensor]
    divided: frozenset[Tensor]
    compared: frozenset[Tensor]
    moved: frozenset[Tensor]
    scales: frozenset[Tensor]

    def unseen(self, result: Tensor) -> float:
        """The base of ``result`` where its running value is 0 or the identity."""
        if result in self.scales:
            return _BEFORE_A_SCALE.get(result.dtype, 1.0)
        return 1.0 if result in self.divided else 0.0


def needs(analyses: tuple[Analysis, ...]) -> Needs:
    """What the maps ask of their base points."""
    needed: set[Tensor] = set()
    for analysis in reversed(analyses):
        needed |= analysis.streamed_results
        if analysis.reduction.result in needed and analysis.separation.transform in ("mul", "add"):
            needed |= analysis.deferred_results
    nodes = {node for analysis in analyses for node in walk(analysis.map) if isinstance(node, Op)}
    operands = [node.args[-1] for node in nodes if node.name in _SINGULAR_AT_ZERO]
    operands += [node.args[0] for node in nodes if node.name == "pow"]
    divided = frozenset(tensor for operand in operands for tensor in _factors(operand))
    computed = {a for node in nodes if node.name != "eq" for a in node.args if isinstance(a, Load)}
    compared = frozenset(needed) - {node.tensor for node in computed}
    moved = frozenset(a.reduction.result for a in analyses if _is_extremum(a) and a.deferred_results)
    return Needs(frozenset(needed), divided, compared, moved, divided & _rounded_against(analyses))


def _rounded_against(analyses: tuple[Analysis, ...]) -> frozenset[Tensor]:
    """Results that elements are taken against before they are rounded."""
    atoms = [atom for a in analyses for symbol, atom in a.streamed.items() if symbol in a.reading.rounded]
    return frozenset(node.tensor for atom in atoms for node in loads(atom))


def _is_extremum(analysis: Analysis) -> bool:
    return analysis.reduction.combiner in ("max", "min")


def _factors(expr: Expr) -> frozenset[Tensor]:
    """Tensors that can make ``expr`` zero: not those inside an exponential."""
    if isinstance(expr, Load):
        return frozenset({expr.tensor})
    if isinstance(expr, Op) and expr.name not in ("exp", "exp2"):
        return frozenset[Tensor]().union(*map(_factors, expr.args))
    return frozenset()


def counted(analysis: Analysis, needs: Needs) -> bool:
    """Whether the base of this reduction depends on how many elements were seen."""
    reduction = analysis.reduction
    return reduction.result in needs.based and reduction.combiner == "sum" and not analysis.separation.streamed


def at_base(expr: Expr, cascade: Cascade) -> Expr:
    """``expr`` with every result of a reduction at its base point."""
    return substitute(expr, {r.value: names.base(r) for r in cascade.reductions})


def base_of(analysis: Analysis, cascade: Cascade, needs: Needs, count: Expr | None) -> Expr:
    """The base point of a reduction, from its running value or its state.

    Args:
        analysis: of the reduction.
        cascade: it belongs to.
        needs: of the whole cascade.
        count: the state's number of elements seen, where :func:`counted`.
    """
    reduction = analysis.reduction
    unseen = needs.unseen(reduction.result)
    if reduction.combiner in ("max", "min"):
        value = _applied(analysis, reduction.value, cascade)
        return value if reduction.result in needs.compared else _bounded(reduction, value, unseen)
    estimate: Expr = names.component(reduction, 0)
    dtype = estimate.dtype
    if count is not None:
        extent = index(cascade.axis.extent)
        total = number(extent.value, dtype) if isinstance(extent, Const) else cast(extent, dtype)
        share = op("div", total, op("max", count, number(1.0, dtype)))
        estimate = op("mul", estimate, share)
    estimate = _applied(analysis, estimate, cascade)
    return cast(_nonzero(estimate, unseen), reduction.result.dtype)


def _applied(analysis: Analysis, value: Expr, cascade: Cascade) -> Expr:
    """``value`` with what is put off to the finish, at its base points."""
    separation = analysis.separation
    factor = separation.factor.xreplace({flag: 0 for flag in analysis.reading.flags})
    leaves = {symbol: at_base(expr, cascade) for symbol, expr in analysis.reading.leaves.items()}
    if separation.transform == "mul" and factor != 1:
        return times(value, factor, leaves, value.dtype)
    if separation.transform == "add" and factor != 0:
        return op("add", value, to_expr(factor, leaves, value.dtype))
    return value


def _nonzero(value: Expr, otherwise: float) -> Expr:
    """``value``, or a number in place of 0 unless that is 0 too."""
    if not otherwise:
        return value
    return op("select", op("eq", value, number(0.0, value.dtype)), number(otherwise, value.dtype), value)


def _bounded(reduction: Reduction, value: Expr, unseen: float) -> Expr:
    """The running extremum, as ``value``; ``unseen`` while it is still the identity."""
    if "float" not in value.dtype:
        return value
    running = reduction.value
    identity = Const(running.dtype, IDENTITIES[reduction.combiner])
    return op("select", op("eq", running, identity), number(unseen, value.dtype), _nonzero(value, unseen))
