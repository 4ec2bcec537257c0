"""Rank 1: a map split as ``F(x, D) = G(x) ⊗ H(D)`` by pivots (METHOD §2).

With a pivot (x₀, D₀) for which ``F(x₀, D₀)`` is invertible under ⊗ the test is the identity
``F(x,D) ⊗ F(x₀,D₀) = F(x,D₀) ⊗ F(x₀,D)``; it is proved by expansion on the domain of the symbols. A pivot
where F isn't invertible is passed over.

The test is made for each atom (a value that earlier results determine) on its own, which tells its part:

* *deferred*: H is a power, a flag or the like. Elements leave the atom out; H is applied once, at the end.
  Where elements themselves are near the end of their type's range, their sums then are too: in float32 a row of numbers
  below 1e-39, divided by its own sum or root, loses digits (7e-5 of the result at 1e-41), and one above 1e37 may
  overflow, where the quotients would not. A base point for such rows would cost every row a correction in each tile.
* *streamed*: H is exponential, G alone would overflow. Elements are taken against a base point.
* *entangled*: no such H. The map isn't of rank 1 in this atom; finite rank is tried next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import sympy

from redfuser.algebra.budget import Budget, NotFusible
from redfuser.algebra.formulas.symbolic import Formula, Reading, Symbol, origin
from redfuser.expr import Expr, Op

_INVALID = (sympy.nan, sympy.zoo, sympy.oo, -sympy.oo)


@dataclass(frozen=True)
class Separation:
    """How a map comes apart.

    Args:
        transform: ⊗ by name.
        core: the map with the deferred atoms at their pivots.
        deferred: those atoms and flags, with the pivots.
        factor: H of the deferred atoms: ``F = core ⊗ factor``.
        streamed: atoms that stay in the core, against a base point.
        entangled: those of them in which the core isn't of rank 1.
        rho: the core's correction from ``origin(atom)`` to ``atom`` for every streamed atom; rank 1 only.
        identity: what was proved, in words.
    """

    transform: str
    core: Formula
    deferred: dict[Symbol, Formula] = field(default_factory=dict)
    factor: Formula = sympy.S.One
    streamed: tuple[Symbol, ...] = ()
    entangled: tuple[Symbol, ...] = ()
    rho: Formula = sympy.S.One
    identity: str = ""


def separate(reading: Reading, expr: Expr, combiner: str, budget: Budget) -> Separation:
    """Split the map ``expr``, read as ``reading``, of a reduction with ``combiner``.

    Raises:
        NotFusible: ``not-separable`` if no ⊗ distributes over ⊕ and splits the map. For sums this is left to
            the finite-rank test: the result then names the entangled atoms.
    """
    budget.check(reading.formula)
    separation = _separate(reading, expr, combiner, budget)
    # What cancels out of the formula, as in (x·t)/t, leaves the elements too.
    cancelled = {symbol: sympy.S.One for symbol in reading.atoms if symbol not in reading.formula.free_symbols}
    cancelled |= {symbol: sympy.S.Zero for symbol in reading.flags if symbol not in reading.formula.free_symbols}
    return replace(separation, deferred={**cancelled, **separation.deferred})


def _separate(reading: Reading, expr: Expr, combiner: str, budget: Budget) -> Separation:
    if combiner == "sum":
        return _by_factor(reading, budget)
    if combiner == "prod":
        return _by_power(reading)
    shifted = _by_shift(reading, budget) or _by_bound(reading, expr)
    if shifted is not None:
        return shifted
    scaled = _by_factor(reading, budget)
    if not scaled.entangled and scaled.factor.is_positive and scaled.rho.is_positive:
        return scaled
    raise _refusal(reading, combiner)


def _refusal(reading: Reading, combiner: str) -> NotFusible:
    text = f"no operation that distributes over {combiner} splits the map into an element and an earlier result"
    return NotFusible("not-separable", text, reading.words(reading.formula))


def _present(reading: Reading) -> list[Symbol]:
    used = reading.formula.free_symbols
    return [symbol for symbol in (*reading.flags, *reading.atoms) if symbol in used]


def _element_pivots(reading: Reading) -> Iterator[dict[Symbol, Formula]]:
    """Values x₀ to try for the element symbols."""
    symbols = list(reading.elements)
    for offset, step in ((1, 0), (2, 0), (2, 1), (5, 3), (0, 0)):
        yield {symbol: sympy.Integer(offset + step * n) for n, symbol in enumerate(symbols)}


def _ratio(core: Formula, swap: dict[Symbol, Formula], reading: Reading) -> Formula | None:
    """``F(x₀, D) / F(x₀, D₀)`` for the first x₀ where the divisor is invertible; ``swap`` maps D to D₀."""
    for pivot in _element_pivots(reading):
        above = core.xreplace(pivot)
        below = above.xreplace(swap)
        if below != 0 and not below.has(*_INVALID) and not above.has(*_INVALID):
            return tidy(above / below)
    return None


def tidy(formula: Formula) -> Formula:
    """Exponents expanded and factored, so that ``exp(c(1-m)) / exp(c(1-m'))`` reads ``exp(c(m'-m))``."""
    formula = sympy.powsimp(formula, combine="exp")
    powers = [node for node in formula.atoms(sympy.Pow, sympy.exp) if node.as_base_exp()[1].free_symbols]
    swaps = {}
    for node in powers:
        base, exponent = node.as_base_exp()
        swaps[node] = base ** sympy.factor_terms(sympy.expand(exponent))
    return formula.xreplace(swaps)


def _splits(core: Formula, swap: dict[Symbol, Formula], ratio: Formula, budget: Budget) -> bool:
    """The pivot test, with x₀ and D₀ absorbed in the ratio."""
    return budget.is_zero(core - core.xreplace(swap) * ratio)


def _by_factor(reading: Reading, budget: Budget) -> Separation:
    """⊗ = ·"""
    formula = reading.formula
    deferred: dict[Symbol, Formula] = {}
    streamed: list[Symbol] = []
    entangled: list[Symbol] = []
    for atom in _present(reading):
        part = _part(atom, reading, budget)
        if part is None:
            entangled.append(atom)
        elif part == "streamed":
            streamed.append(atom)
        else:
            deferred[atom] = part
    core = formula.xreplace(deferred)
    factor = _ratio(formula, deferred, reading) if deferred else sympy.Integer(1)
    if factor is None or not _splits(formula, deferred, factor, budget):
        # The atoms split one by one but not together.
        return Separation("mul", formula, streamed=tuple(_present(reading)), entangled=tuple(_present(reading)))
    kept = tuple(streamed + entangled)
    if entangled:
        return Separation("mul", core, deferred, factor, kept, tuple(entangled))
    swap = {atom: origin(atom) for atom in streamed}
    rho = _ratio(core, swap, reading) if streamed else sympy.Integer(1)
    if rho is None or not _splits(core, swap, rho, budget):
        return Separation("mul", core, deferred, factor, kept, kept)
    return Separation("mul", core, deferred, factor, kept, (), rho, "F(x,D)·F(x₀,D₀) = F(x,D₀)·F(x₀,D)")


def _part(atom: Symbol, reading: Reading, budget: Budget) -> Formula | str | None:
    """The pivot of a deferred atom, ``"streamed"``, or ``None`` if it is entangled."""
    formula = reading.formula
    swap = {atom: origin(atom)}
    ratio = _ratio(formula, swap, reading)
    if ratio is None or not _splits(formula, swap, ratio, budget):
        return None
    if atom in reading.rounded or (_is_exponential(ratio, atom) and not is_logarithm(atom, reading)):
        return "streamed"
    valid = []
    for pivot in (sympy.Integer(0), sympy.Integer(1)):
        factor = _ratio(formula, {atom: pivot}, reading)
        at_pivot = formula.xreplace({atom: pivot})
        if factor is not None and at_pivot != 0 and not at_pivot.has(*_INVALID):
            valid.append((factor.count_ops(), pivot))
    return min(valid, key=lambda item: item[0])[1] if valid else None


def _is_exponential(ratio: Formula, atom: Symbol) -> bool:
    slope = sympy.expand(sympy.diff(ratio, atom) / ratio)
    return bool(slope != 0) and not slope.has(atom) and not slope.has(origin(atom))


def is_logarithm(atom: Symbol, reading: Reading) -> bool:
    """``exp(-log t)`` is ``1/t``: no overflow to fear."""
    expr = reading.leaves[atom]
    while isinstance(expr, Op) and expr.name == "cast":
        expr = expr.args[0]
    return isinstance(expr, Op) and expr.name in ("log", "log2", "log1p")


def _by_shift(reading: Reading, budget: Budget) -> Separation | None:
    """⊗ = +. Adding rounds but never overflows what the unfused graph wouldn't: every atom is deferred."""
    formula = reading.formula
    atoms = _present(reading)
    for pivot in (sympy.Integer(0), sympy.Integer(1)):
        swap = dict.fromkeys(atoms, pivot)
        for point in _element_pivots(reading):
            above = formula.xreplace(point)
            factor = above - above.xreplace(swap)
            if factor.has(*_INVALID):
                continue
            if budget.is_zero(formula - formula.xreplace(swap) - factor):
                core = formula.xreplace(swap)
                return Separation("add", core, swap, factor, identity="F(x,D) + F(x₀,D₀) = F(x,D₀) + F(x₀,D)")
    return None


def _by_bound(reading: Reading, expr: Expr) -> Separation | None:
    """⊗ = max or min: the map itself is a maximum or minimum of an element and an earlier result."""
    if not isinstance(expr, Op) or expr.name not in ("max", "min"):
        return None
    elements = [a for a in reading.formula.args if a in reading.elements]
    atoms = [a for a in reading.formula.args if a in reading.atoms]
    if len(elements) != 1 or len(atoms) != 1:
        return None
    neutral = -sympy.oo if expr.name == "max" else sympy.oo
    identity = f"F(x,D) = {expr.name}(G(x), H(D))"
    return Separation(expr.name, elements[0], {atoms[0]: neutral}, atoms[0], identity=identity)


def _by_power(reading: Reading) -> Separation:
    """⊗ = power: ``Π G(x)^H(D) = (Π G(x))^H(D)`` for positive G."""
    base, exponent = reading.formula.as_base_exp()
    atoms = set(_present(reading))
    splits = not base.free_symbols & atoms and not exponent.free_symbols & set(reading.elements)
    if not splits or not base.is_positive or len(atoms) != 1 or exponent not in atoms:
        raise _refusal(reading, "prod")
    return Separation("pow", base, {exponent: sympy.Integer(1)}, exponent, identity="F(x,D) = G(x)^H(D), G(x) > 0")
