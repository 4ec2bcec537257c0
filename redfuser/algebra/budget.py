"""How a derivation stops: the one exception that carries a reason, and the bound on symbolic work."""

from __future__ import annotations

import time

import sympy

from redfuser.algebra.formulas.symbolic import Formula
from redfuser.reason import Reason


class NotFusible(Exception):
    """No incremental form exists or none was proved. Caught by ``derive``, which reports the reason."""

    def __init__(self, code: str, text: str, witness: str = "") -> None:
        super().__init__(text)
        self.reason = Reason(code, text, witness)


class Budget:
    """Bounds the symbolic work of one derivation by the sizes of formulas, so that the verdict is always the same.

    Args:
        work: operations in all formulas worked on together.
        operations: in one formula; a larger one is not worked on.
        power: sums raised to more than this are not expanded.
        seconds: of this process on a core, a backstop; waiting for a loaded machine does not count.
    """

    def __init__(self, work: int = 4_000, operations: int = 400, power: int = 8, seconds: float = 20.0) -> None:
        self.work = work
        self.operations = operations
        self.power = power
        self.deadline = time.process_time() + seconds

    def check(self, formula: Formula) -> None:
        """Account for work on ``formula``.

        Raises:
            NotFusible: with the code ``not-proved-in-budget``.
        """
        size = formula.count_ops()
        self.work -= size
        powers = (node for node in formula.atoms(sympy.Pow) if node.base.is_Add and node.exp.is_number)
        large = size > self.operations or any(abs(node.exp) > self.power for node in powers)
        if large or self.work < 0 or time.process_time() > self.deadline:
            why = "a formula grew too large" if large else "it took too long"
            raise NotFusible("not-proved-in-budget", f"the proof was given up because {why}", str(formula)[:200])

    def expand(self, formula: Formula) -> Formula:
        """Products, powers, exponentials and angles of sums multiplied out; squares of sines as those of cosines."""
        self.check(formula)
        formula = sympy.expand_log(formula)
        if formula.has(sympy.sin, sympy.cos):
            formula = sympy.expand_trig(formula)
        expanded = sympy.expand(formula)
        self.check(expanded)
        return self._in_cosines(expanded)

    def factor(self, formula: Formula) -> Formula:
        """``formula`` as a product."""
        self.check(formula)
        return sympy.factor(formula)

    def _in_cosines(self, formula: Formula) -> Formula:
        """Modulo sin² + cos² = 1: a polynomial in sines and cosines is zero exactly if this is."""
        squares = {
            node: (1 - sympy.cos(node.base.args[0]) ** 2) ** (node.exp // 2) * node.base ** (node.exp % 2)
            for node in formula.atoms(sympy.Pow)
            if isinstance(node.base, sympy.sin) and node.exp.is_Integer and node.exp > 1
        }
        if not squares:
            return formula
        expanded = sympy.expand(formula.xreplace(squares))
        self.check(expanded)
        return expanded

    def is_zero(self, formula: Formula) -> bool:
        """Whether ``formula`` was proved to be zero everywhere on the domain of its symbols."""
        if _refuted(formula):
            return False
        if self.expand(formula) == 0:
            return True
        numerator, _ = sympy.fraction(sympy.together(formula))
        return bool(self.expand(numerator) == 0)


def _refuted(formula: Formula) -> bool:
    """Whether a point shows that ``formula`` isn't zero: cheaper than an expansion that would show it too."""
    symbols = sorted(formula.free_symbols, key=str)
    point = {symbol: sympy.Float(0.6 + 0.37 * (n % 5) + 0.01 * n) for n, symbol in enumerate(symbols)}
    value = formula.xreplace(point)
    return bool(value.is_Float and abs(value) > 1e-6)
