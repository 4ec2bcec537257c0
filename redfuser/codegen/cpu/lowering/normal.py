"""Buffers of which a phase shows that they hold no subnormal numbers: exponentials, and sums of nothing else.

Exponentials below the normal range are 0 (see :mod:`redfuser.codegen.cpu.values.exponentials`), and none is negative.
Dividing by such a sum needs no care for reciprocals that are infinite.
"""

from __future__ import annotations

from redfuser.expr import Expr, Load, Op, Tensor
from redfuser.tile.ir import Contract, Fill, Map, Phase, Reduce, Store
from redfuser.tile.walk import steps


def never_subnormal(phase: Phase) -> frozenset[Tensor]:
    """Buffers that only exponentials, sums of exponentials and zeros are written to."""
    written = [(s.target.tensor, s) for s in steps(phase.body) if not isinstance(s, Store)]
    found: frozenset[Tensor] = frozenset()
    while True:
        others = {tensor for tensor, statement in written if not _is_normal(statement, found)}
        now = frozenset(tensor for tensor, _ in written) - others
        if now == found:
            return found
        found = now


def _is_normal(statement: Fill | Map | Reduce | Contract, known: frozenset[Tensor]) -> bool:
    """Whether a statement writes nothing subnormal, if ``known`` hold nothing subnormal."""
    if isinstance(statement, Fill):
        return statement.value == 0
    if isinstance(statement, Map):
        return _is_exponential(statement.value, known)
    return isinstance(statement, Reduce) and statement.combiner == "sum" and _is_exponential(statement.value, known)


def _is_exponential(value: Expr, known: frozenset[Tensor]) -> bool:
    if value.dtype != "float32":
        return False
    return (isinstance(value, Op) and value.name == "exp") or (isinstance(value, Load) and value.tensor in known)
