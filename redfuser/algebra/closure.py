"""Finite rank: a map whose family ``{F(·, D)}`` spans a space that is closed under a change of base point (METHOD §3).

The basis f is F and its derivatives with respect to the entangled atoms, taken until they depend linearly
on each other over functions of D; unexpanded, they are the centred basis. Written out as ``f = W(D) g`` with
functions g of the element alone, the change of base is ``M(D, D') = W(D') W(D)⁻¹``, which is then checked:
``M W(D) = W(D')`` entry by entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy
from sympy.polys.matrices import DomainMatrix
from sympy.simplify.fu import TR10i

from redfuser.algebra.budget import Budget, NotFusible
from redfuser.algebra.separation import Symbol, origin, tidy
from redfuser.algebra.symbolic import Formula, Reading

#: kurtosis needs 5
LARGEST_RANK = 6


@dataclass(frozen=True)
class Closure:
    """A basis and its change of base.

    Args:
        basis: f, the map first.
        matrix: M, from ``origin(atom)`` to ``atom``.
    """

    basis: tuple[Formula, ...]
    matrix: sympy.Matrix

    @property
    def rank(self) -> int:
        """Numbers in the state."""
        return len(self.basis)


def close(core: Formula, atoms: tuple[Symbol, ...], reading: Reading, budget: Budget) -> Closure:
    """Find a basis for ``core`` as the atoms vary.

    Raises:
        NotFusible: ``not-finite-rank``, with the part that still mixes element and earlier results as the
            witness, or with the rank that was passed.
    """
    if any(flag in core.free_symbols for flag in reading.flags):
        text = "the map switches between two formulas on an earlier result"
        raise NotFusible("not-finite-rank", text, reading.words(core))
    for generate in (_first_independent, _highest_independent):
        members = generate(core, atoms, reading, budget)
        functions = sorted({g for member in members for g in member.row}, key=str)
        weights = _weights(members, functions)
        columns = _independent_columns(weights)
        if len(columns) == len(members) and _regular(weights[:, columns], atoms, budget):
            matrix = _change_of_base(weights, columns, atoms, budget)
            return Closure(tuple(member.formula for member in members), matrix)
    text = "the change of base point is singular where two earlier results meet"
    raise NotFusible("not-finite-rank", text, reading.words(core))


@dataclass(frozen=True)
class _Member:
    """A derivative of the map, also written as Σ g(x)·h(D): ``row`` maps g to h."""

    formula: Formula
    row: dict[Formula, Formula]


def _first_independent(
    core: Formula, atoms: tuple[Symbol, ...], reading: Reading, budget: Budget
) -> tuple[_Member, ...]:
    """Derivatives in order, until they depend on those before them: the fewest."""
    members = [_Member(core, _written_out(core, reading, budget))]
    place = 0
    while place < len(members):
        for atom in atoms:
            derivative = _derivative(members[place], atom, atoms, [m.formula for m in members], reading, budget)
            if derivative is None or not _independent([*members, derivative]):
                continue
            members.append(derivative)
            if len(members) > LARGEST_RANK:
                text = f"the derivatives of the map are still independent after {LARGEST_RANK} members"
                raise NotFusible("not-finite-rank", text, reading.words(core))
        place += 1
    return tuple(members)


def _highest_independent(
    core: Formula, atoms: tuple[Symbol, ...], reading: Reading, budget: Budget
) -> tuple[_Member, ...]:
    """The same span from its highest derivatives down, after the map itself.

    Of g(x-μ), g(x-ν) and g any two span the third, but only with g among them no coefficient is 1/(μ-ν).
    """
    first = _Member(core, _written_out(core, reading, budget))
    found, level = [first], [first]
    for _ in range(LARGEST_RANK):
        above = [_derivative(member, atom, atoms, [], reading, budget) for member in level for atom in atoms]
        level = []
        for member in above:
            if member is not None and all(member.row != other.row for other in found):
                found.append(member)
                level.append(member)
    chosen = [first]
    for member in reversed(found[1:]):
        if len(chosen) < LARGEST_RANK and _independent([*chosen, member]):
            chosen.append(member)
    return (first, *reversed(chosen[1:]))


def _derivative(
    member: _Member,
    atom: Symbol,
    atoms: tuple[Symbol, ...],
    earlier: list[Formula],
    reading: Reading,
    budget: Budget,
) -> _Member | None:
    formula = _shortest(_monic(sympy.diff(member.formula, atom), atoms), earlier, budget)
    return None if formula == 0 else _Member(formula, _written_out(formula, reading, budget))


def _weights(members: Sequence[_Member], functions: list[Formula]) -> sympy.Matrix:
    return sympy.Matrix([[member.row.get(g, sympy.S.Zero) for g in functions] for member in members])


def _regular(square: sympy.Matrix, atoms: tuple[Symbol, ...], budget: Budget) -> bool:
    """Whether W is invertible at every base point: its determinant has no factor that vanishes somewhere."""
    # Elimination multiplies the entries with each other.
    budget.check(sympy.Add(*square, evaluate=False))
    domain = DomainMatrix.from_Matrix(square).to_field()
    determinant = budget.expand(domain.domain.to_sympy(domain.det()))
    factors = sympy.Mul.make_args(budget.factor(determinant))
    return not any(factor.as_base_exp()[0].is_Add and factor.has(*atoms) for factor in factors)


def _shortest(derivative: Formula, basis: list[Formula], budget: Budget) -> Formula:
    """``derivative``, less the one earlier member that shortens it most, if any does."""
    candidates = [derivative]
    if derivative.has(sympy.exp):
        candidates += [tidy(budget.factor(derivative - member)) for member in basis]
    return min(candidates, key=lambda formula: formula.count_ops())


def _monic(formula: Formula, atoms: tuple[Symbol, ...]) -> Formula:
    """Without its numeric factor and the sign of its element, which a basis doesn't need."""
    if formula == 0:
        return formula
    monic = sympy.factor_terms(formula).as_coeff_Mul()[1]
    element = monic.xreplace(dict.fromkeys(atoms, sympy.Integer(0)))
    return sympy.factor_terms(-monic) if element.could_extract_minus_sign() else monic


def _written_out(formula: Formula, reading: Reading, budget: Budget) -> dict[Formula, Formula]:
    atoms = set(reading.atoms)
    row: dict[Formula, Formula] = {}
    for term in sympy.Add.make_args(budget.expand(formula)):
        element, rest = sympy.Integer(1), sympy.Integer(1)
        for factor in sympy.Mul.make_args(term):
            mixes = factor.free_symbols & atoms and factor.free_symbols & set(reading.elements)
            if mixes:
                text = "a factor of the map mixes an element with an earlier result and doesn't come apart"
                raise NotFusible("not-finite-rank", text, reading.words(factor))
            if factor.free_symbols & set(reading.elements):
                element *= factor
            else:
                rest *= factor
        row[element] = row.get(element, sympy.Integer(0)) + rest
    return {g: h for g, h in row.items() if h != 0}


def _generic_point(symbols: set[Symbol], seed: int) -> dict[Symbol, sympy.Float]:
    generator = np.random.default_rng(seed)
    names = sorted(symbols, key=lambda symbol: str(symbol))
    return {symbol: sympy.Float(generator.uniform(0.5, 2)) for symbol in names}


def _numeric(weights: sympy.Matrix, seed: int) -> np.ndarray:
    values = weights.xreplace(_generic_point(weights.free_symbols, seed))
    return np.array(values.tolist(), dtype=np.complex128)


def _independent(members: Sequence[_Member]) -> bool:
    """Whether the last member raises the rank at a generic point; a wrong answer is caught when M is checked."""
    functions = sorted({g for member in members for g in member.row}, key=str)
    weights = _weights(members, functions)
    return any(int(np.linalg.matrix_rank(_numeric(weights, seed), tol=1e-9)) == len(members) for seed in (1, 2))


def _change_of_base(
    weights: sympy.Matrix, columns: list[int], atoms: tuple[Symbol, ...], budget: Budget
) -> sympy.Matrix:
    square = weights[:, columns]
    swap = {atom: origin(atom) for atom in atoms}
    inverse = DomainMatrix.from_Matrix(square.xreplace(swap)).to_field().inv().to_Matrix()
    matrix = (square * inverse).applyfunc(lambda entry: _entry(entry, atoms, budget))
    residue = matrix * weights.xreplace(swap) - weights
    if not all(budget.is_zero(entry) for entry in residue):
        raise NotFusible("not-finite-rank", "the change of base point could not be proved", str(matrix))
    return matrix


def _entry(entry: Formula, atoms: tuple[Symbol, ...], budget: Budget) -> Formula:
    """In differences of base points, such as ``(μ - μ')²·exp(m' - m)``: floating point computes those well."""
    shifts = {atom: sympy.Dummy(f"shift_{atom.name}", real=True) for atom in atoms}
    shifted = budget.expand(entry.xreplace({atom: origin(atom) + shift for atom, shift in shifts.items()}))
    if not shifted.has(*map(origin, atoms)) and not shifted.has(sympy.sin, sympy.cos):
        return tidy(budget.factor(shifted)).xreplace({shift: atom - origin(atom) for atom, shift in shifts.items()})
    if entry.has(sympy.sin, sympy.cos):
        return TR10i(budget.expand(entry))
    return tidy(budget.factor(budget.expand(entry)))


def _independent_columns(weights: sympy.Matrix) -> list[int]:
    numeric = _numeric(weights, 3)
    chosen: list[int] = []
    for column in range(numeric.shape[1]):
        trial = [*chosen, column]
        if int(np.linalg.matrix_rank(numeric[:, trial], tol=1e-9)) == len(trial):
            chosen = trial
        if len(chosen) == numeric.shape[0]:
            break
    return chosen
