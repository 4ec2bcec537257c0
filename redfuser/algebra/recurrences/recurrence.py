"""Recurrences, written from what the analysis proved.

SymPy proves; the expressions are assembled from the graph's own sub-expressions. An element is the map with its
streamed atoms at their base points and its deferred atoms left out, so the ``exp(s - m.base)`` of a softmax's sum
and of the product with the values is one and the same expression.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import sympy

from redfuser.algebra import names
from redfuser.algebra.derivation import Component, Recurrence
from redfuser.algebra.formulas.printing import Leaves, times, to_expr
from redfuser.algebra.formulas.specialise import is_constant, specialise
from redfuser.algebra.formulas.symbolic import Formula, Symbol, origin
from redfuser.algebra.proofs.analysis import Analysis
from redfuser.algebra.proofs.splits import split_of
from redfuser.algebra.recurrences.bases import Needs, at_base, base_of, counted, needs
from redfuser.algebra.recurrences.corrections import Matrix, corrections, needs_count, unless_empty
from redfuser.algebra.recurrences.elements import arrange
from redfuser.cascade.model import IDENTITIES, Cascade, Reduction
from redfuser.expr import Const, Expr, Op, cast, number, op


def recurrences(analyses: tuple[Analysis, ...], cascade: Cascade) -> tuple[Recurrence, ...]:
    """The incremental form of every reduction of ``cascade``."""
    bases = needs(analyses)
    return tuple(_recurrence(analysis, cascade, bases) for analysis in analyses)


def _recurrence(analysis: Analysis, cascade: Cascade, bases: Needs) -> Recurrence:
    reduction = analysis.reduction
    elements = _elements(analysis, cascade)
    matrix: Matrix = corrections(analysis, elements, cascade, bases) if analysis.separation.streamed else ()
    count = None
    if matrix and reduction.combiner in ("max", "min"):
        matrix = unless_empty(matrix, names.component(reduction, 0), IDENTITIES[reduction.combiner])
    elif counted(analysis, bases) or (matrix and needs_count(analysis, elements, cascade, bases)):
        count = names.component(reduction, len(elements))
        one = number(1.0, count.dtype)
        elements = (*elements, one)
        if matrix:
            matrix = (*((*row, None) for row in unless_empty(matrix, count, 0.0)), (*(None for _ in matrix), one))
    state = tuple(
        Component(names.component(reduction, n).tensor, reduction.combiner, element, matrix[n] if matrix else ())
        for n, element in enumerate(elements)
    )
    base = None
    if reduction.result in bases.based:
        base = base_of(analysis, cascade, bases, count if counted(analysis, bases) else None)
    finish = cast(_finish(analysis, cascade), reduction.result.dtype)
    split = split_of(analysis, cascade)
    return Recurrence(reduction.result, analysis.separation.transform, state, base, finish, split)


def _elements(analysis: Analysis, cascade: Cascade) -> tuple[Expr, ...]:
    """One for each member of the basis; the first is the map itself."""
    reduction = analysis.reduction
    dtype = names.accumulator(reduction.result.dtype)
    values: dict[Expr, Expr] = {atom: at_base(atom, cascade) for atom in analysis.streamed.values()}
    for symbol, pivot in analysis.separation.deferred.items():
        atom = analysis.reading.leaves[symbol]
        values[atom] = _pivot(pivot, atom.dtype)
    first = specialise(analysis.map, values)
    leaves = {symbol: specialise(expr, values) for symbol, expr in analysis.reading.leaves.items()}
    others = [to_expr(formula, leaves, dtype) for formula in analysis.closure.basis[1:]]
    if reduction.combiner != "sum":
        return (cast(first, dtype),)
    own = frozenset(reduction.axes) - frozenset(cascade.rows)
    return tuple(arrange(element, own, dtype) for element in (first, *others))


def _pivot(pivot: Formula, dtype: str) -> Const:
    if dtype == "bool":
        return Const(dtype, bool(pivot))
    return Const(dtype, float(pivot)) if "float" in dtype else Const(dtype, int(pivot))


def _finish(analysis: Analysis, cascade: Cascade) -> Expr:
    """The state re-based to the true values, then the deferred factor, both with ⊗."""
    if analysis.finish is not None:
        return analysis.finish
    dtype = names.accumulator(analysis.reduction.result.dtype)
    leaves: dict[Symbol, Expr] = dict(analysis.reading.leaves)
    for symbol, atom in analysis.streamed.items():
        leaves[origin(symbol)] = at_base(atom, cascade)
    row = analysis.closure.matrix.row(0)
    if analysis.reading.integral and _only_extrema(analysis, cascade):
        # The base is the final value but for a scale of 0, where the graph's integers are 0 rather than NaN.
        row = row.xreplace({origin(symbol): symbol for symbol in analysis.streamed})
    total: Expr | None = None
    for place, entry in enumerate(row):
        if entry != 0:
            term = times(names.component(analysis.reduction, place), entry, leaves, dtype)
            total = term if total is None else op("add", total, term)
    assert total is not None
    return _apply(analysis, total, analysis.separation.factor, leaves, _Cleared(analysis, cascade))


@dataclass(frozen=True)
class _Cleared:
    """What a row comes to whose elements a NaN guard clears: Σ 0·v, which is NaN where a value is NaN or infinite.

    Where a mask hid every element, each is 0·v already (METHOD §4: the base is finite, and exp(-∞) is 0), and so is
    their sum. Of a row with a NaN among its scores nothing is known of the values: it is 0.
    """

    analysis: Analysis
    cascade: Cascade

    def value(self, flag: Expr) -> Expr:
        """Under a flag that holds for the row."""
        dtype = names.accumulator(self.analysis.reduction.result.dtype)
        zero = number(0.0, dtype)
        total = self._sum(flag)
        if total is None or not self._clears_a_factor(flag):
            return zero
        finite = op("lt", op("abs", names.component(self.analysis.reduction, 0)), number(inf, dtype))
        # Not the maximum: one that passes over NaN is -∞ too where all but a NaN is hidden.
        state = names.component(total, 0)
        hidden = op("eq", state, number(0.0, state.dtype))
        # What the guard tests is NaN. A difference of the state from itself, which would be too, is folded to zero.
        return op("select", hidden, op("select", finite, zero, cast(total.value, dtype)), zero)

    def _sum(self, flag: Expr) -> Reduction | None:
        """The sum that a flag tests, where elements of a state of one number are taken against a maximum."""
        streamed = self.analysis.streamed_results
        found = [r for r in self.cascade.reductions if r.result in streamed and r.combiner == "max"]
        if not len(streamed) == len(found) == self.analysis.closure.rank == 1 or not isinstance(flag, Op):
            return None
        return next((r for r in self.cascade.reductions if r.combiner == "sum" and (r.value,) == flag.args), None)

    def _clears_a_factor(self, flag: Expr) -> bool:
        """Whether zero takes the place of a factor of the element, not of all of it."""
        if not (isinstance(flag, Op) and flag.name == "isnan"):
            return False
        element = specialise(self.analysis.map, {flag: Const("bool", True)})
        return isinstance(element, Op) and element.name == "mul" and any(is_constant(a, 0) for a in element.args)


def _only_extrema(analysis: Analysis, cascade: Cascade) -> bool:
    extrema = {r.result for r in cascade.reductions if r.combiner in ("max", "min")}
    return analysis.streamed_results <= extrema


def _apply(analysis: Analysis, total: Expr, factor: Formula, leaves: Leaves, cleared: _Cleared) -> Expr:
    """``total ⊗ factor``; a flag in the factor becomes a choice, since 0 · NaN isn't 0."""
    dtype = total.dtype
    flags = [flag for flag in analysis.reading.flags if flag in factor.free_symbols]
    if flags:
        holds, fails = (factor.xreplace({flags[0]: sympy.Integer(value)}) for value in (1, 0))
        zero = holds == 0 and analysis.separation.transform == "mul"
        chosen = cleared.value(leaves[flags[0]]) if zero else _apply(analysis, total, holds, leaves, cleared)
        return op("select", leaves[flags[0]], chosen, _apply(analysis, total, fails, leaves, cleared))
    transform = analysis.separation.transform
    if transform == "mul":
        return number(0.0, dtype) if factor == 0 else times(total, factor, leaves, dtype)
    if transform == "add":
        return total if factor == 0 else _shifted(total, factor, leaves, dtype)
    return op(transform, total, to_expr(factor, leaves, dtype))


def _shifted(total: Expr, shift: Formula, leaves: Leaves, dtype: str) -> Expr:
    if shift.could_extract_minus_sign():
        return op("sub", total, to_expr(-shift, leaves, dtype))
    return op("add", total, to_expr(shift, leaves, dtype))
