"""The change of base as expressions: from the base point before a tile to the one after it.

Before anything was seen the state is the identity, and no correction may put a NaN or an infinity into it:

* a running extremum starts at ∓∞. Where every member of the basis vanishes at that score, its raw previous value is
  used: ``exp(-∞ - m)`` is 0, as it should be; where the raw value isn't finite the correction is 0 outright;
* otherwise the previous base point is used, and if an exponential of it could overflow, nothing is corrected while
  the count of elements seen is 0;
* a state that is itself an extremum is left alone while it is the identity: ``-∞ · 0`` is NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import sympy

from redfuser.algebra import names
from redfuser.algebra.formulas.printing import Leaves, to_expr
from redfuser.algebra.formulas.symbolic import origin
from redfuser.algebra.proofs.analysis import Analysis
from redfuser.algebra.proofs.separation import is_logarithm
from redfuser.algebra.recurrences.bases import Needs, at_base
from redfuser.cascade.model import IDENTITIES, Cascade, Reduction
from redfuser.expr import Axis, Const, Expr, Load, Tensor, number, op, substitute, walk
from redfuser.expr.evaluate import evaluate

Matrix = tuple[tuple[Expr | None, ...], ...]


def corrections(analysis: Analysis, elements: tuple[Expr, ...], cascade: Cascade, bases: Needs) -> Matrix:
    """M as expressions, entry by entry; ``None`` where it is 0."""
    bounded = vanishing(analysis, elements, cascade, bases)
    raw = _printed(analysis, cascade, bounded)
    if not bounded or all(_finite_at_identity(entry, bounded) for row in raw for entry in row if entry is not None):
        return raw
    unseen = [op("eq", names.previous(r.value), _identity(r)) for r in bounded]
    empty = unseen[0]
    for other in unseen[1:]:
        empty = op("or", empty, other)
    return tuple(tuple(None if e is None else _unless(empty, e, 0.0) for e in row) for row in raw)


def needs_count(analysis: Analysis, elements: tuple[Expr, ...], cascade: Cascade, bases: Needs) -> bool:
    """Whether a correction could overflow while the state is still the identity."""
    exponential = any(entry.has(sympy.exp) or _has_power(entry) for entry in analysis.closure.matrix)
    streamed = analysis.streamed_results
    bounded = {r.result for r in vanishing(analysis, elements, cascade, bases)}
    return exponential and not streamed <= bounded and not _anchored(analysis, bounded, cascade)


def unless_empty(matrix: Matrix, marker: Expr, identity: float) -> Matrix:
    """The same corrections, but nothing is corrected while ``marker``, a component, is still the identity."""
    empty = op("eq", names.previous(marker), Const(marker.dtype, identity))
    return tuple(tuple(None if e is None else _unless(empty, e, 1.0) for e in row) for row in matrix)


def _has_power(entry: sympy.Expr) -> bool:
    return any(not node.exp.is_number for node in entry.atoms(sympy.Pow))


def _anchored(analysis: Analysis, bounded: set[Tensor], cascade: Cascade) -> bool:
    """Whether the exponentials only hold extrema at which every element vanishes, and logarithms."""
    inside = {s for entry in analysis.closure.matrix for node in entry.atoms(sympy.exp) for s in node.free_symbols}
    grows = [symbol for symbol in analysis.streamed if not is_logarithm(symbol, analysis.reading)]
    atoms = [analysis.streamed[symbol] for symbol in grows if {symbol, origin(symbol)} & inside]
    used = {r.result for r in cascade.reductions for expr in atoms for node in walk(expr) if node == r.value}
    return bool(bounded) and used <= bounded


def _unless(condition: Expr, value: Expr, otherwise: float) -> Expr:
    return op("select", condition, number(otherwise, value.dtype), value)


def _identity(reduction: Reduction) -> Const:
    return Const(reduction.value.dtype, IDENTITIES[reduction.combiner])


def _printed(analysis: Analysis, cascade: Cascade, raw: tuple[Reduction, ...]) -> Matrix:
    dtype = names.accumulator(analysis.reduction.result.dtype)
    leaves: dict[sympy.Symbol, Expr] = dict(analysis.reading.parameters)
    before = {r.value: names.previous(r.value if r in raw else names.base(r)) for r in cascade.reductions}
    for symbol, atom in analysis.streamed.items():
        leaves[symbol] = at_base(atom, cascade)
        leaves[origin(symbol)] = substitute(atom, before)
    return printed(analysis.closure.matrix, leaves, dtype)


def printed(matrix: sympy.Matrix, leaves: Leaves, dtype: str) -> Matrix:
    """A matrix of formulas as expressions."""
    return tuple(
        tuple(None if entry == 0 else to_expr(entry, leaves, dtype) for entry in matrix.row(row))
        for row in range(matrix.rows)
    )


def vanishing(analysis: Analysis, elements: tuple[Expr, ...], cascade: Cascade, bases: Needs) -> tuple[Reduction, ...]:
    """The streamed extrema whose identity, as the score, makes every element vanish (or be NaN in any case)."""
    streamed = [r for r in cascade.reductions if r.result in analysis.streamed_results]
    extrema = [r for r in streamed if r.combiner in ("max", "min") and "float" in r.result.dtype]
    # The base of a divisor isn't its running value where that is 0, nor is that of a shifted extremum.
    extrema = [r for r in extrema if r.result not in bases.divided | bases.moved]
    return tuple(r for r in extrema if all(_vanishes(element, r) for element in elements))


def _vanishes(element: Expr, extremum: Reduction) -> bool:
    nodes = set(walk(element))
    if extremum.map not in nodes:
        return False
    swapped = substitute(element, {extremum.map: _identity(extremum)})
    return all(np.all((value == 0) | np.isnan(value)) for value in _samples(swapped))


def _finite_at_identity(entry: Expr, extrema: tuple[Reduction, ...]) -> bool:
    for count in range(1, len(extrema) + 1):
        for chosen in itertools.combinations(extrema, count):
            swapped = substitute(entry, {names.previous(r.value): _identity(r) for r in chosen})
            if not all(np.all(np.isfinite(value)) for value in _samples(swapped)):
                return False
    return True


def _samples(expr: Expr) -> Iterator[np.ndarray]:
    """Values of ``expr`` in float64 with arbitrary finite numbers, of either sign and any size, for its loads."""
    leaves = [node for node in walk(expr) if isinstance(node, Load)]
    for seed in range(8):
        generator = np.random.default_rng(seed)
        scale = 10.0 ** generator.integers(-2, 4)
        values: dict[Expr, Expr] = {
            leaf: Const(leaf.dtype, float(scale * generator.normal()) if "float" in leaf.dtype else 1)
            for leaf in leaves
        }
        axes = {node: np.zeros((), np.int64) for node in walk(expr) if isinstance(node, Axis)}
        yield evaluate(substitute(expr, values), {}, axes, "float64")
