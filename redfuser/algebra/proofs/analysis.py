"""The proof about one reduction: how its map separates or closes. No recurrence is written yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import sympy

from redfuser.algebra.budget import Budget, NotFusible
from redfuser.algebra.formulas.assumptions import Sign
from redfuser.algebra.formulas.dependence import Kinds
from redfuser.algebra.formulas.symbolic import Reading, Symbol, read
from redfuser.algebra.monoids import pair
from redfuser.algebra.proofs.closure import Closure, close
from redfuser.algebra.proofs.guards import hoist
from redfuser.algebra.proofs.rounding import rounds
from redfuser.algebra.proofs.selection import transport
from redfuser.algebra.proofs.separation import Separation, separate
from redfuser.cascade.model import Cascade, Reduction
from redfuser.expr import PAIR, Expr, Tensor, loads, walk


@dataclass(frozen=True)
class Analysis:
    """What was proved about one reduction.

    Args:
        reduction: as the cascade has it.
        map: its map, with NaN guards moved to earlier results.
        reading: the map as a formula.
        separation: how it comes apart.
        closure: its basis and change of base.
        finish: of a selection, the final value where it isn't the state itself.
    """

    reduction: Reduction
    map: Expr
    reading: Reading
    separation: Separation
    closure: Closure
    finish: Expr | None = None

    @property
    def streamed(self) -> dict[Symbol, Expr]:
        """Atoms that elements are taken against a base point of."""
        return {symbol: self.reading.atoms[symbol] for symbol in self.separation.streamed}

    @property
    def streamed_results(self) -> frozenset[Tensor]:
        """The earlier results in those atoms."""
        return frozenset(node.tensor for atom in self.streamed.values() for node in loads(atom))

    @property
    def deferred_results(self) -> frozenset[Tensor]:
        """The earlier results that are applied at the finish."""
        leaves = self.reading.leaves
        return frozenset(node.tensor for symbol in self.separation.deferred for node in loads(leaves[symbol]))


def analyse(
    reduction: Reduction, cascade: Cascade, sign: Callable[[Expr], Sign], budget: Budget, relaxed: bool = False
) -> Analysis:
    """Prove that ``reduction`` has an incremental form; ``relaxed`` as for :func:`.symbolic.read`.

    Raises:
        NotFusible: it hasn't, or the proof wasn't found in the budget.
    """
    if not cascade.dependencies(reduction):
        return _plain(reduction, reduction.map)
    if reduction.result.dtype == PAIR:
        element, finish = transport(reduction, cascade, sign)
        return replace(_plain(reduction, element), finish=finish)
    expr = hoist(reduction.map, cascade)
    if not relaxed:
        _require_unrounded(expr, cascade)
    reading = read(expr, cascade, sign, relaxed)
    separation = separate(reading, expr, reduction.combiner, budget)
    if separation.entangled:
        closure = close(separation.core, separation.streamed, reading, budget)
    else:
        assert pair(reduction.combiner, separation.transform) is not None
        closure = Closure((separation.core,), sympy.Matrix([[separation.rho]]))
    return Analysis(reduction, expr, reading, separation, closure)


def _require_unrounded(expr: Expr, cascade: Cascade) -> None:
    kinds = Kinds.of(expr, cascade.axis, frozenset(r.result for r in cascade.reductions))
    for node in walk(expr):
        if rounds(node) and kinds.mixed(node):
            text = "an element is rounded by a scale that is known at the end only; relaxed numerics use a running one"
            raise NotFusible("not-finite-rank", text, str(node))


def _plain(reduction: Reduction, map: Expr) -> Analysis:
    """A map without earlier results is its own element."""
    element = sympy.Symbol("x0", real=True)
    reading = Reading(element, elements={element: map})
    return Analysis(reduction, map, reading, Separation("mul", element), Closure((element,), sympy.eye(1)))
