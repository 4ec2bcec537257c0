"""Extrema that may pass over a NaN, since all that is stored shows it anyway.

A running maximum that hands NaNs on takes three instructions, one that passes over them takes one. Softmax needs no
more: the exponential of a NaN is a NaN, so is the sum of the exponentials, and so is whatever is divided by it. That
sum is the maximum's witness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redfuser.expr import Expr, Load, Op, Tensor, loads
from redfuser.expr.operators import UNARY
from redfuser.tile.ir import Fill, Map, Phase, Reduce, Statement, Store, Stream
from redfuser.tile.walk import operands, steps, written

#: Operators whose result is a NaN if one argument is.
STRICT = frozenset({"add", "sub", "mul", "div", "cast", *UNARY}) - {"isnan", "isinf"}

#: Where an expression is a NaN if some elements are: nowhere for sure, at these elements, in their whole row.
NOWHERE, THERE, EVERYWHERE = range(3)


def witnessed(phase: Phase) -> frozenset[Reduce]:
    """Maxima and minima in streams that may pass over NaNs: no store of the phase tells the difference."""
    shown: set[Reduce] = set()
    other: set[Reduce] = set()
    for place, stream in enumerate(phase.body):
        for number, item in enumerate(stream.body if isinstance(stream, Stream) else ()):
            if isinstance(stream, Stream) and isinstance(item, Reduce) and _is_extremum(item):
                held = _Witnesses(item, _dependent(phase, item)).hold(stream, number, phase.body[place + 1 :])
                (shown if held else other).add(item)
    return frozenset(shown - other)


def _is_extremum(item: Reduce) -> bool:
    return item.combiner in ("max", "min") and item.rank is None and "float" in item.value.dtype


@dataclass(frozen=True)
class _Facts:
    """What is known to be a NaN after some statements if an element of the extremum was.

    Args:
        fresh: whether the extremum's elements are still what they were.
        there: buffers that are, at the element's own point.
        everywhere: tensors that are, in the element's whole row.
    """

    fresh: bool = False
    there: frozenset[Tensor] = frozenset()
    everywhere: frozenset[Tensor] = frozenset()

    def without(self, tensor: Tensor, read: frozenset[Tensor]) -> _Facts:
        """Once a tensor was written anew; ``read``: what the extremum's elements are computed from."""
        return _Facts(self.fresh and tensor not in read, self.there - {tensor}, self.everywhere - {tensor})

    def adding(self, tensor: Tensor, where: int) -> _Facts:
        """Once a NaN was added to a tensor there."""
        return _Facts(
            self.fresh,
            self.there | {tensor} if where == THERE else self.there,
            self.everywhere | {tensor} if where == EVERYWHERE else self.everywhere,
        )


@dataclass(frozen=True)
class _Witnesses:
    """The search for witnesses of one extremum.

    Args:
        extremum: a reduction in a stream.
        dependent: tensors whose contents depend on its result.
    """

    extremum: Reduce
    dependent: frozenset[Tensor]

    @property
    def read(self) -> frozenset[Tensor]:
        """What the elements are computed from."""
        return _tensors(self.extremum.value)

    def hold(self, stream: Stream, place: int, after: Sequence[Statement]) -> bool:
        """Whether each store that depends on the extremum stores a NaN if an element is one.

        Args:
            stream: the stream that it is in.
            place: its own place there.
            after: the statements that follow the stream.
        """
        facts = self._kept(stream, self._walk(stream.body[place + 1 :], _Facts(fresh=True)))
        for statement in after:
            if facts is None:
                return False
            facts = self._after(statement, stream, facts)
        return facts is not None

    def _after(self, statement: Statement, stream: Stream, facts: _Facts) -> _Facts | None:
        if not isinstance(statement, Stream):
            return self._step(statement, facts)
        alike = (statement.axis, statement.start, statement.stop) == (stream.axis, stream.start, stream.stop)
        return self._kept(statement, self._walk(statement.body, facts) if alike else facts)

    def _kept(self, stream: Stream, facts: _Facts | None) -> _Facts | None:
        """What is still known after any number of a stream's iterations in which no element is a NaN."""
        while facts is not None:
            resting = _Facts(False, frozenset(), facts.everywhere)
            after = self._walk(stream.body, resting)
            fresh = facts.fresh and self.read.isdisjoint(map(written, steps(stream.body)))
            if after is None:
                return None
            left = facts.everywhere & after.everywhere
            if left == facts.everywhere:
                return _Facts(fresh, frozenset(), left)
            facts = _Facts(facts.fresh, frozenset(), left)
        return None

    def _walk(self, body: Sequence[Statement], facts: _Facts | None) -> _Facts | None:
        for statement in body:
            facts = self._step(statement, facts) if facts is not None else None
        return facts

    def _step(self, statement: Statement, facts: _Facts) -> _Facts | None:
        """What is known after a statement; None if it stores what it shouldn't, or is a stream in another."""
        if isinstance(statement, Stream):
            return None
        if isinstance(statement, Store):
            value = self._where(statement.value, facts)
            hidden = value != EVERYWHERE and _tensors(statement.value) & self.dependent
            if hidden or any(_tensors(i) & self.dependent for i in statement.indices):
                return None
            return facts.without(statement.tensor, self.read)
        tensor = statement.target.tensor
        if isinstance(statement, Fill | Map):
            where = self._where(statement.value, facts) if isinstance(statement, Map) else NOWHERE
            return facts.without(tensor, self.read).adding(tensor, where)
        if isinstance(statement, Reduce) and statement.combiner not in ("sum", "prod"):
            return facts.without(tensor, self.read)
        where = max(self._where(value, facts) for value in operands(statement))
        if where == THERE and statement.over == self.extremum.over:
            where = EVERYWHERE
        fresh = facts.fresh and tensor not in self.read
        return _Facts(fresh, facts.there, facts.everywhere).adding(tensor, where)

    def _where(self, value: Expr, facts: _Facts) -> int:
        if facts.fresh and value == self.extremum.value:
            return THERE
        if isinstance(value, Load):
            return EVERYWHERE if value.tensor in facts.everywhere else THERE if value.tensor in facts.there else NOWHERE
        if not isinstance(value, Op) or value.name not in STRICT or "float" not in value.dtype:
            return NOWHERE
        return max(self._where(argument, facts) for argument in value.args)


def _dependent(phase: Phase, extremum: Reduce) -> frozenset[Tensor]:
    """Tensors that the extremum's result goes into, through any number of statements."""
    flow = [(written(s), {tensor for value in operands(s) for tensor in _tensors(value)}) for s in steps(phase.body)]
    found = {extremum.target.tensor}
    while more := {target for target, read in flow if read & found} - found:
        found |= more
    return frozenset(found)


def _tensors(value: Expr) -> frozenset[Tensor]:
    return frozenset(node.tensor for node in loads(value))
