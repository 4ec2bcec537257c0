"""Means that elements are measured from: kept to more than single precision. No TVM.

``x - mean`` cancels when the mean is large against the spread: with a mean of 1e6 a float32 sum leaves no digit of
the variance. Such sums, and the reductions that measure from them, are accumulated in float64; the kernels concerned
wait for memory, not for arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Axis, Const, Expr, Load, Op, Tensor, axes_of, cast, load, loads, op, walk

SINGLE, DOUBLE = "float32", "float64"


def sharpen_centres(cascade: Cascade) -> Cascade:
    """The cascade with every sum that elements are measured from, and what is measured from it, in float64.

    Inputs, outputs and all other results keep their type.
    """
    centres = _centres(cascade, [*(r.map for r in cascade.reductions), *(o.value for o in cascade.outputs)])
    if not centres:
        return cascade
    doubled = {r.result: Tensor(r.result.name, r.result.shape, DOUBLE) for r in _doubled(cascade, centres)}
    return replace(
        cascade,
        reductions=tuple(_reduction(r, doubled) for r in cascade.reductions),
        epilogues=tuple(replace(r, map=_narrow(r.map, cascade.axis, doubled)) for r in cascade.epilogues),
        outputs=tuple(replace(o, value=_narrow(o.value, cascade.axis, doubled)) for o in cascade.outputs),
    )


def _centres(cascade: Cascade, exprs: Iterable[Expr]) -> frozenset[Tensor]:
    """Results of sums that stand, alone or scaled by a constant, on the right of a difference with an element."""
    sums = {r.result for r in cascade.reductions if r.combiner == "sum" and r.result.dtype == SINGLE}
    return frozenset(t for expr in exprs for node in walk(expr) for t in _subtracted(node, cascade.axis)) & sums


def _subtracted(node: Expr, axis: Axis) -> frozenset[Tensor]:
    """Tensors of which the centre of a difference is made; none if the node isn't such a difference."""
    if not (isinstance(node, Op) and node.name == "sub"):
        return frozenset()
    element, centre = node.args
    if axis not in axes_of(element) or axis in axes_of(centre) or not _is_mean(centre):
        return frozenset()
    return frozenset(n.tensor for n in loads(centre))


def _is_mean(centre: Expr) -> bool:
    if isinstance(centre, Op) and centre.name in ("div", "mul") and isinstance(centre.args[1], Const):
        centre = centre.args[0]
    return isinstance(centre, Load)


def _doubled(cascade: Cascade, centres: frozenset[Tensor]) -> list[Reduction]:
    """The centres, and the single-precision sums whose elements are measured from one."""
    return [
        r
        for r in cascade.reductions
        if r.result in centres
        or (r.combiner == "sum" and r.result.dtype == SINGLE and _centres(cascade, [r.map]) & centres)
    ]


def _reduction(item: Reduction, doubled: Mapping[Tensor, Tensor]) -> Reduction:
    if item.result in doubled:
        return replace(item, result=doubled[item.result], map=_widen(item.map, doubled))
    return replace(item, map=_narrow(item.map, item.over, doubled))


def _widen(expr: Expr, doubled: Mapping[Tensor, Tensor]) -> Expr:
    """An expression in float64 where it was in float32."""
    if isinstance(expr, Load):
        known = doubled.get(expr.tensor)
        return load(known, *expr.indices) if known else cast(expr, DOUBLE) if expr.dtype == SINGLE else expr
    if isinstance(expr, Const):
        return Const(DOUBLE, expr.value) if expr.dtype == SINGLE else expr
    if not isinstance(expr, Op):
        return expr
    args = tuple(_widen(a, doubled) for a in expr.args)
    if expr.name == "cast" and expr.dtype == SINGLE:
        return cast(args[0], DOUBLE)
    return Op(DOUBLE if expr.dtype == SINGLE else expr.dtype, expr.name, args)


def _narrow(expr: Expr, axis: Axis, doubled: Mapping[Tensor, Tensor]) -> Expr:
    """An expression in its own types over doubled results: differences from a centre are rounded once, at their end."""
    if isinstance(expr, Load):
        return cast(load(doubled[expr.tensor], *expr.indices), expr.dtype) if expr.tensor in doubled else expr
    if isinstance(expr, Op) and _subtracted(expr, axis) & doubled.keys():
        return cast(op("sub", *(_widen(a, doubled) for a in expr.args)), expr.dtype)
    if not isinstance(expr, Op):
        return expr
    return expr.rebuild(tuple(_narrow(a, axis, doubled) for a in expr.args))
