"""Differences of which a phase shows that they are never positive: of a value and a maximum that has seen it.

Their exponentials don't overflow, which saves a fifth of the work where no instruction scales by a power of two. A NaN
may be on either side.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import inf

from redfuser.codegen.cpu.lowering.strides import value_loads
from redfuser.expr import Const, Expr, Op, Tensor, axes_of, index
from redfuser.tile.ir import Phase, Reduce, Statement, Store, Stream
from redfuser.tile.sharing import values
from redfuser.tile.walk import Step, operands

#: That a value is at most an element of a buffer, whose tensor stands last.
Fact = tuple[Expr, Expr, Tensor]


def never_positive(phase: Phase) -> frozenset[Expr]:
    """Arguments of exponentials that are at most zero, or a NaN, wherever the phase computes them."""
    shown: set[Expr] = set()
    unknown: set[Expr] = set()
    _walk(phase.body, frozenset(), shown, unknown)
    return frozenset(shown - unknown)


def _walk(body: Sequence[Statement], facts: frozenset[Fact], shown: set[Expr], unknown: set[Expr]) -> frozenset[Fact]:
    """What holds after the statements, if ``facts`` hold before."""
    for statement in body:
        if isinstance(statement, Stream):
            facts = _stream(statement, facts, shown, unknown)
            continue
        for argument in _arguments(statement):
            (shown if _holds(argument, facts) else unknown).add(argument)
        if isinstance(statement, Store):
            facts = _without(facts, [statement.tensor])
            continue
        target = statement.target
        if isinstance(statement, Reduce) and statement.combiner == "max" and statement.rank is None:
            facts = frozenset(f for f in facts if target.tensor not in _read(f[0]))  # the maximum only grows
            if target.tensor not in _read(statement.value):
                facts |= {(statement.value, target.value, target.tensor)}
            continue
        source = _base(getattr(statement, "value", None))
        known = [value for value, maximum, _ in facts if maximum == source]
        facts = _without(facts, [target.tensor])
        facts |= {(v, target.value, target.tensor) for v in known if target.tensor not in _read(v)}
    return facts


def _stream(stream: Stream, facts: frozenset[Fact], shown: set[Expr], unknown: set[Expr]) -> frozenset[Fact]:
    """What holds after a stream: of its own facts, those of every point of an axis it goes through as a whole."""
    changed = list(_changed(stream.body))
    written = {tensor for tensor, _ in changed}
    lowered = {tensor for tensor, grows in changed if not grows}

    def lasting(found: Iterable[Fact]) -> frozenset[Fact]:
        return frozenset(f for f in found if f[2] not in lowered and not written & _read(f[0]))

    before = lasting(facts)
    inside = lasting(_walk(stream.body, before, shown, unknown))
    if (stream.start, stream.stop) != (index(0), index(stream.axis.extent)):
        return before
    return before | {fact for fact in inside if stream.axis in axes_of(fact[0])}


def _holds(argument: Expr, facts: Iterable[Fact]) -> bool:
    if not isinstance(argument, Op) or argument.name != "sub":
        return False
    return any((value, maximum) == argument.args for value, maximum, _ in facts)


def _base(value: Expr | float | None) -> Expr | None:
    """The maximum that a value is, or is unless it is −∞: then whatever it has seen is −∞ too."""
    if isinstance(value, Op) and value.name == "select":
        condition, instead, otherwise = value.args
        if isinstance(condition, Op) and condition.name == "eq" and isinstance(instead, Const):
            other = [a for a in condition.args if not (isinstance(a, Const) and a.value == -inf)]
            return otherwise if other == [otherwise] else None
    return value if isinstance(value, Expr) else None


def _arguments(statement: Step) -> Iterator[Expr]:
    """What the exponentials of a statement are taken of."""
    nodes = chain.from_iterable(map(values, operands(statement)))
    return (node.args[0] for node in nodes if isinstance(node, Op) and node.name == "exp")


def _changed(body: Sequence[Statement]) -> Iterator[tuple[Tensor, bool]]:
    """Tensors that are written, and whether a maximum is folded in, so that they only grow."""
    for statement in body:
        if isinstance(statement, Stream):
            yield from _changed(statement.body)
        elif isinstance(statement, Store):
            yield statement.tensor, False
        else:
            yield statement.target.tensor, isinstance(statement, Reduce) and statement.combiner == "max"


def _without(facts: Iterable[Fact], changed: Iterable[Tensor]) -> frozenset[Fact]:
    gone = set(changed)
    return frozenset(fact for fact in facts if fact[2] not in gone and not gone & _read(fact[0]))


def _read(value: Expr) -> set[Tensor]:
    return {node.tensor for node in value_loads(value)}
