"""What was proved about a map, as expressions: G, H and ρ, or a basis and its change of base."""

from __future__ import annotations

import sympy

from redfuser.algebra import names
from redfuser.algebra.derivation import Split
from redfuser.algebra.formulas.printing import NotPrintable, to_expr
from redfuser.algebra.formulas.symbolic import Formula, origin
from redfuser.algebra.proofs.analysis import Analysis
from redfuser.cascade.model import Cascade
from redfuser.expr import Expr, Load, Tensor, load, substitute

_INVALID = (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)
_DTYPE = "float64"


def split_of(analysis: Analysis, cascade: Cascade) -> Split | None:
    """How the map of ``analysis`` comes apart; ``None`` if it uses no earlier result, or no operator writes a part."""
    try:
        return _split(analysis, cascade)
    except NotPrintable:
        return None


def _split(analysis: Analysis, cascade: Cascade) -> Split | None:
    separation, closure = analysis.separation, analysis.closure
    if closure.rank > 1:
        basis = tuple(_written(member, analysis, cascade) for member in closure.basis)
        rows = [closure.matrix.row(place) for place in range(closure.rank)]
        matrix = tuple(tuple(_written(entry, analysis, cascade) for entry in row) for row in rows)
        factor = None if separation.factor == 1 else _written(separation.factor, analysis, cascade)
        return Split(basis, factor, matrix)
    if not separation.identity:
        return None
    # G and H are what the map becomes where the base point is 0; ρ relates any two.
    element = separation.core.xreplace(dict.fromkeys(separation.streamed, sympy.S.Zero))
    moved = separation.rho.xreplace({origin(symbol): sympy.S.Zero for symbol in separation.streamed})
    if element == 0 or element.has(*_INVALID) or moved.has(*_INVALID):
        element, moved = separation.core, sympy.S.One
    whole = moved * separation.factor if separation.transform == "mul" else separation.factor
    rho = ((_written(separation.rho, analysis, cascade),),) if separation.streamed else ()
    return Split((_written(element, analysis, cascade),), _written(whole, analysis, cascade), rho)


def _written(formula: Formula, analysis: Analysis, cascade: Cascade) -> Expr:
    """A formula, its symbols replaced by what they stand for."""
    before = {r.value: names.previous(r.value) for r in cascade.reductions}
    leaves: dict[sympy.Symbol, Expr] = dict(analysis.reading.leaves)
    for symbol, atom in analysis.streamed.items():
        leaves[origin(symbol)] = substitute(atom, before)
    # Stand-ins of one type keep casts out.
    stand_ins: dict[sympy.Symbol, Load] = {s: load(Tensor(s.name, (), _DTYPE)) for s in leaves}
    expr = to_expr(sympy.sympify(formula), stand_ins, _DTYPE)
    return substitute(expr, {stand_ins[symbol]: leaf for symbol, leaf in leaves.items()})
