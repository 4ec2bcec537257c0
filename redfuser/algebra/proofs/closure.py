"""Finite rank: a map whose family ``{F(·, D)}`` spans a space that is closed under a change of base point (METHOD §3).

The basis f is F and its derivatives with respect to the entangled atoms, taken until they depend linearly
on each other over functions of D; unexpanded, they are the centred basis. Written out as ``f = W(D) g`` with
functions g of the element alone, the change of base is ``M(D, D') = W(D') W(D)⁻¹``, which is then checked:
``M W(D) = W(D')`` entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import sympy
from sympy.polys.matrices import DomainMatrix
from sympy.simplify.fu import TR10i

from redfuser.algebra.budget import Budget, NotFusible
from redfuser.algebra.formulas.symbolic import Formula, Reading, Symbol, origin
from redfuser.algebra.proofs.separation import tidy

#: kurtosis needs 5
LARGEST_RANK = 6


@dataclass(frozen=True)
class Closure:
    """A basis and its change of base.

    Args:
        basis: f, the map first. It is one more than the rank of the span where the map can't be part of a basis.
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
    for members in _bases(core, atoms, reading, budget):
        weights = _weights(members)
        matrix = _change_of_base(weights, atoms, budget)
        if matrix is not None and _defined(matrix, core, atoms):
            _prove(matrix, weights, atoms, budget)
            return Closure(tuple(member.formula for member in members), matrix)
    text = "the change of base point divides by earlier results that the map doesn't divide by"
    raise NotFusible("not-finite-rank", text, reading.words(core))


@dataclass(frozen=True)
class _Member:
    """A derivative of the map, also written as Σ g(x)·h(D): ``row`` maps g to h."""

    formula: Formula
    row: dict[Formula, Formula]


def _bases(core: Formula, atoms: tuple[Symbol, ...], reading: Reading, budget: Budget) -> Iterator[tuple[_Member, ...]]:
    """What to try, the map always first: only at some of these the change of base has no poles.

    The highest derivatives hardly depend on D: of g(x-μ), g(x-ν) and g any two span the third, but only with g among
    them no coefficient is 1/(μ-ν); of x, x-μ and 1, only with 1 none is 1/μ. A map that loses its place in the span
    at some D, as (μ-ν)(x-μ) + 1 does, stands beside a basis of its derivatives.
    """
    yield _first_independent(core, atoms, reading, budget)
    first = _Member(core, _written_out(core, reading, budget))
    derivatives = _derivatives(first, atoms, reading, budget)
    yield (first, *_highest_independent(derivatives, (first,)))
    yield (first, *_highest_independent(derivatives, ()))


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


def _derivatives(core: _Member, atoms: tuple[Symbol, ...], reading: Reading, budget: Budget) -> list[_Member]:
    """Those of every order, in order."""
    found, level = [core], [core]
    for _ in range(LARGEST_RANK):
        above = [_derivative(member, atom, atoms, [], reading, budget) for member in level for atom in atoms]
        level = []
        for member in above:
            if member is not None and all(member.row != other.row for other in found):
                found.append(member)
                level.append(member)
    return found[1:]


def _highest_independent(derivatives: Sequence[_Member], besides: tuple[_Member, ...]) -> tuple[_Member, ...]:
    """From the highest down, those independent of each other and of ``besides``."""
    chosen = list(besides)
    for member in reversed(derivatives):
        if len(chosen) < LARGEST_RANK and _independent([*chosen, member]):
            chosen.append(member)
    return tuple(reversed(chosen[len(besides) :]))


def _derivative(
    member: _Member,
    atom: Symbol,
    atoms: tuple[Symbol, ...],
    earlier: list[Formula],
    reading: Reading,
    budget: Budget,
) -> _Member | None:
    monic = _undivided(_monic(sympy.diff(member.formula, atom), atoms), reading)
    formula = _shortest(monic, earlier, budget)
    return None if formula == 0 else _Member(formula, _written_out(formula, reading, budget))


def _weights(members: Sequence[_Member]) -> sympy.Matrix:
    """W: a row for each member, a column for each function of the element."""
    functions = sorted({g for member in members for g in member.row}, key=str)
    return sympy.Matrix([[member.row.get(g, sympy.S.Zero) for g in functions] for member in members])


def _defined(matrix: sympy.Matrix, core: Formula, atoms: tuple[Symbol, ...]) -> bool:
    """Whether M has a value at every base point at which the map has one.

    That an atom is known to be positive doesn't help: only what the map divides by has a base that isn't 0.
    """
    back = {before: atom for atom, before in _origins(atoms).items()}
    return {divisor.xreplace(back) for entry in matrix for divisor in _divisors(entry)} <= _divisors(core)


def _divisors(formula: Formula) -> set[Formula]:
    return {node.base for node in formula.atoms(sympy.Pow) if node.exp.is_negative}


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


def _undivided(formula: Formula, reading: Reading) -> Formula:
    """Without divisors that elements are rounded by: 1/s overflows in rows where x/s doesn't."""
    factors = [factor.as_base_exp() for factor in sympy.Mul.make_args(formula)]
    kept = [base**power for base, power in factors if not (power.is_negative and base in reading.rounded)]
    return sympy.Mul(*kept)


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
    weights = _weights(members)
    return any(int(np.linalg.matrix_rank(_numeric(weights, seed), tol=1e-9)) == len(members) for seed in (1, 2))


def _change_of_base(weights: sympy.Matrix, atoms: tuple[Symbol, ...], budget: Budget) -> sympy.Matrix | None:
    """``M = W(D') W(D)⁻¹`` on as many columns as a basis has members; ``None`` if there is no basis.

    A map that depends on the other members is computed from them.
    """
    columns = _independent_columns(weights)
    extra = weights.rows - len(columns)
    basis = weights[extra:, columns]
    if extra > 1 or len(_independent_columns(basis)) < basis.rows:
        return None
    # Elimination multiplies the entries with each other.
    budget.check(sympy.Add(*basis, evaluate=False))
    inverse = DomainMatrix.from_Matrix(basis.xreplace(_origins(atoms))).to_field().inv().to_Matrix()
    matrix = (weights[:, columns] * inverse).applyfunc(lambda entry: _entry(entry, atoms, budget))
    return sympy.Matrix.hstack(sympy.zeros(weights.rows, extra), matrix)


def _prove(matrix: sympy.Matrix, weights: sympy.Matrix, atoms: tuple[Symbol, ...], budget: Budget) -> None:
    """``M W(D) = W(D')`` in every column."""
    residue = matrix * weights.xreplace(_origins(atoms)) - weights
    if not all(budget.is_zero(entry) for entry in residue):
        raise NotFusible("not-finite-rank", "the change of base point could not be proved", str(matrix))


def _origins(atoms: tuple[Symbol, ...]) -> dict[Symbol, Symbol]:
    return {atom: origin(atom) for atom in atoms}


def _entry(entry: Formula, atoms: tuple[Symbol, ...], budget: Budget) -> Formula:
    """In differences of base points, such as ``(μ - μ')²·exp(m' - m)``: floating point computes those well."""
    shifts = {atom: sympy.Dummy(f"shift_{atom.name}", real=True) for atom in atoms}
    shifted = budget.expand(entry.xreplace({atom: origin(atom) + shift for atom, shift in shifts.items()}))
    differences = {shift: atom - origin(atom) for atom, shift in shifts.items()}
    if entry.has(sympy.sin, sympy.cos):
        return TR10i(budget.expand(entry))
    if not shifted.has(*map(origin, atoms)):
        return tidy(budget.factor(shifted)).xreplace(differences)
    factored = tidy(budget.factor(budget.expand(entry)))
    if factored.is_Add and shifted.is_polynomial(*shifts.values(), *map(origin, atoms)):
        return sympy.horner(shifted, *shifts.values()).xreplace(differences)
    return factored


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
