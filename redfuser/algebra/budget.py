"""How a derivation stops: the one exception that carries a reason, and the bound on symbolic work."""

from __future__ import annotations

import time

import sympy

from redfuser.algebra.symbolic import Formula
from redfuser.reason import Reason


class NotFusible(Exception):
    """No incremental form exists or none was proved. Caught by ``derive``, which reports the reason."""

    def __init__(self, code: str, text: str, witness: str = "") -> None:
        super().__init__(text)
        self.reason = Reason(code, text, witness)


class Budget:
    """Bounds the symbolic work of one derivation, in size of formulas first and in seconds as a backstop.

    Args:
        seconds: after this the derivation stops at its next step.
        operations: larger formulas are not expanded.
        power: sums raised to more than this are not expanded.
    """

    def __init__(self, seconds: float = 1.5, operations: int = 400, power: int = 8) -> None:
        self.deadline = time.monotonic() + seconds
        self.operations = operations
        self.power = power

    def check(self, formula: Formula) -> None:
        """Stop unless ``formula`` is small enough to work on.

        Raises:
            NotFusible: with the code ``not-proved-in-budget``.
        """
        late = time.monotonic() > self.deadline
        large = formula.count_ops() > self.operations
        powers = (node for node in formula.atoms(sympy.Pow) if node.base.is_Add and node.exp.is_number)
        if late or large or any(abs(node.exp) > self.power for node in powers):
            why = "it took too long" if late else "a formula grew too large"
            raise NotFusible("not-proved-in-budget", f"the proof was given up because {why}", str(formula)[:200])

    def expand(self, formula: Formula) -> Formula:
        """Products, powers, exponentials and angles of sums multiplied out."""
        self.check(formula)
        formula = sympy.expand_log(formula)
        if formula.has(sympy.sin, sympy.cos):
            formula = sympy.expand_trig(formula)
        expanded = sympy.expand(formula)
        self.check(expanded)
        return expanded

    def is_zero(self, formula: Formula) -> bool:
        """Whether ``formula`` was proved to be zero everywhere on the domain of its symbols."""
        if _refuted(formula):
            return False
        expanded = self.expand(formula)
        if expanded == 0:
            return True
        if expanded.has(sympy.sin, sympy.cos):
            return bool(sympy.trigsimp(expanded) == 0)
        numerator, _ = sympy.fraction(sympy.together(formula))
        return bool(self.expand(numerator) == 0)


def _refuted(formula: Formula) -> bool:
    """Whether a point shows that ``formula`` isn't zero: cheaper than an expansion that would show it too."""
    symbols = sorted(formula.free_symbols, key=str)
    point = {symbol: sympy.Float(0.6 + 0.37 * (n % 5) + 0.01 * n) for n, symbol in enumerate(symbols)}
    value = formula.xreplace(point)
    return bool(value.is_Float and abs(value) > 1e-6)
