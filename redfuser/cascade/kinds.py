"""What people call a cascade, read off its shape: for reports and gates, never for decisions. No TVM."""

from __future__ import annotations

from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import Expr, Load, Op, axes_of, loads, walk

KINDS = ("attention", "softmax", "routing", "norm", "moments", "quant_gemm", "quant", "logsumexp", "other")


def classify(cascade: Cascade) -> str:
    """One of :data:`KINDS`."""
    if cascade.selects:
        return "routing"
    elementwise = any(cascade.axis in output.axes for output in cascade.outputs)
    combiners = [r.combiner for r in cascade.reductions]
    contraction = any(_own_axes(cascade, r) for r in cascade.reductions)
    exponential = any(_has(r.map, "exp") for r in cascade.reductions)
    rounding = any(_rounds(r.map) for r in cascade.reductions)
    if exponential and not {"max", "min"}.isdisjoint(combiners):  # softmin, and a maximum as the least of -x
        if contraction or any(_weighs(r) for r in cascade.reductions):
            return "attention"
        return "softmax" if elementwise or _picks(cascade) else "logsumexp"
    if rounding and contraction and "max" in combiners:
        return "quant_gemm"
    if set(combiners) <= {"max", "min"} and any(_rounds(o.value) for o in cascade.outputs if cascade.axis in o.axes):
        return "quant"
    if set(combiners) == {"sum"} and not contraction:
        return "norm" if elementwise else "moments"
    return "other"


def _picks(cascade: Cascade) -> bool:
    """Whether an output is made of an element that data name: the probability of the expert or word chosen before."""
    along = {n.tensor for r in cascade.reductions for n in loads(r.map) if cascade.axis in axes_of(n)}
    read = [node for output in cascade.outputs for node in loads(output.value) if node.tensor in along]
    return any(loads(place) for node in read for place in node.indices)


def _weighs(reduction: Reduction) -> bool:
    """Whether it sums a tensor weighted by exponentials of others: attention pooling, one column of values."""
    products = [node.args for node in walk(reduction.map) if isinstance(node, Op) and node.name == "mul"]
    pairs = [pair for a, b in products for pair in ((a, b), (b, a)) if _has(pair[0], "exp")]
    return reduction.combiner == "sum" and any(_is_apart(value, weight) for weight, value in pairs)


def _is_apart(value: Expr, weight: Expr) -> bool:
    """Whether a value is an element of a tensor that its weight isn't made of: of an entropy it is."""
    while isinstance(value, Op) and value.name == "cast":
        value = value.args[0]
    return isinstance(value, Load) and value.tensor not in {node.tensor for node in loads(weight)}


def _own_axes(cascade: Cascade, reduction: Reduction) -> bool:
    return bool(set(reduction.axes) - set(cascade.rows)) and cascade.axis in axes_of(reduction.map)


def _has(expr: Expr, name: str) -> bool:
    return any(isinstance(node, Op) and node.name == name for node in walk(expr))


def _rounds(expr: Expr) -> bool:
    return _has(expr, "round") or _has_narrow_cast(expr)


def _has_narrow_cast(expr: Expr) -> bool:
    return any(
        isinstance(node, Op) and node.name == "cast" and node.dtype.startswith(("int8", "uint8", "float8"))
        for node in walk(expr)
    )
