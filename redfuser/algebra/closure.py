"""Finite rank: a map whose family ``{F(·, D)}`` spans a space that is closed under a change of base point (METHOD §3).

The basis f is F and its derivatives with respect to the entangled atoms, taken until they depend linearly
on each other over functions of D; unexpanded, they are the centred basis. Written out as ``f = W(D) g`` with
functions g of the element alone, the change of base is ``M(D, D') = W(D') W(D)⁻¹``, which is then checked:
``M W(D) = W(D')`` entry by entry.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy
from sympy.polys.matrices import DomainMatrix

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
        raise NotFusible(
            "not-finite-rank", "the map switches between two formulas on an earlier result", reading.words(core)
        )
    basis, rows = _derivatives(core, atoms, reading, budget)
    functions = sorted({g for row in rows for g in row}, key=str)
    weights = sympy.Matrix([[row.get(g, sympy.Integer(0)) for g in functions] for row in rows])
    matrix = _change_of_base(weights, atoms, budget)
    return Closure(tuple(basis), matrix)


def _derivatives(
    core: Formula, atoms: tuple[Symbol, ...], reading: Reading, budget: Budget
) -> tuple[list[Formula], list[dict[Formula, Formula]]]:
    """The basis, and each member written as Σ g(x)·h(D)."""
    basis = [core]
    rows = [_written_out(core, reading, budget)]
    place = 0
    while place < len(basis):
        for atom in atoms:
            derivative = _shortest(_monic(sympy.diff(basis[place], atom), atoms), basis)
            if derivative == 0:
                continue
            row = _written_out(derivative, reading, budget)
            if not _independent([*rows, row], atoms):
                continue
            basis.append(derivative)
            rows.append(row)
            if len(basis) > LARGEST_RANK:
                text = f"the derivatives of the map are still independent after {LARGEST_RANK} members"
                raise NotFusible("not-finite-rank", text, reading.words(core))
        place += 1
    return basis, rows


def _shortest(derivative: Formula, basis: list[Formula]) -> Formula:
    """``derivative``, less the one earlier member that shortens it most, if any does."""
    candidates = [derivative]
    if derivative.has(sympy.exp):
        candidates += [tidy(sympy.factor(derivative - member)) for member in basis]
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


def _independent(rows: list[dict[Formula, Formula]], atoms: tuple[Symbol, ...]) -> bool:
    """Whether the last row raises the rank at a generic point; a wrong answer is caught when M is checked."""
    functions = sorted({g for row in rows for g in row}, key=str)
    weights = sympy.Matrix([[row.get(g, sympy.Integer(0)) for g in functions] for row in rows])
    return any(int(np.linalg.matrix_rank(_numeric(weights, seed), tol=1e-9)) == len(rows) for seed in (1, 2))


def _change_of_base(weights: sympy.Matrix, atoms: tuple[Symbol, ...], budget: Budget) -> sympy.Matrix:
    columns = _independent_columns(weights)
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
        return tidy(sympy.factor(shifted)).xreplace({shift: atom - origin(atom) for atom, shift in shifts.items()})
    if entry.has(sympy.sin, sympy.cos):
        return sympy.trigsimp(budget.expand(entry))
    return tidy(sympy.factor(budget.expand(entry)))


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
