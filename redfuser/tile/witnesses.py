"""Extrema that may pass over a NaN, since all that is stored shows it anyway.

A running maximum that hands NaNs on takes three instructions, one that passes over them takes one. Softmax needs no
more: the exponential of a NaN is a NaN, so is the sum of the exponentials, and so is whatever is divided by it. That
sum is the maximum's witness. Where segments of a row are merged, it is so in two steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeGuard

from redfuser.expr import Axis, Expr, Load, Op, Tensor, axes_of, loads
from redfuser.expr.operators import UNARY
from redfuser.tile.ir import Fill, Map, Phase, Reduce, Statement, Store, Stream
from redfuser.tile.walk import operands, steps, written

#: Operators whose result is a NaN if one argument is.
STRICT = frozenset({"add", "sub", "mul", "div", "cast", *UNARY}) - {"isnan", "isinf"}


@dataclass(frozen=True)
class Everywhere:
    """In the whole row of the element that is a NaN."""


#: Where an expression is a NaN if an element is: in its row, at one point along an axis of it, nowhere for sure.
Where = Everywhere | Axis | None


def witnessed(phases: Sequence[Phase], workspaces: Collection[Tensor] = ()) -> frozenset[Reduce]:
    """Maxima and minima that may pass over NaNs: no bound differs for it, and no store but what later phases read.

    Args:
        phases: all of a program, or one of which everything that it stores counts.
        workspaces: tensors that later phases read, and nothing else.
    """
    shown: set[Reduce] = set()
    other: set[Reduce] = set()
    for place, phase in enumerate(phases):
        for found in _extrema(phase):
            search = _Witnesses(found.extremum, workspaces, _cuts(found))
            facts = search.after_extremum(found)
            for later in phases[place + 1 :]:
                facts = search.through(later.body, facts.at_a_barrier(workspaces)) if facts is not None else None
            (shown if facts is not None else other).add(found.extremum)
    return frozenset(shown - other)


@dataclass(frozen=True)
class _Place:
    """An extremum and what follows it.

    Args:
        rest: of the body that it is in.
        stream: that it is in, if any.
        after: of the phase behind that stream.
    """

    extremum: Reduce
    rest: tuple[Statement, ...]
    stream: Stream | None = None
    after: tuple[Statement, ...] = ()


def _extrema(phase: Phase) -> Iterator[_Place]:
    for number, item in enumerate(phase.body):
        after = phase.body[number + 1 :]
        if isinstance(item, Stream):
            inside = enumerate(item.body)
            yield from (_Place(s, item.body[n + 1 :], item, after) for n, s in inside if _is_extremum(s))
        elif _is_extremum(item):
            yield _Place(item, after)


def _is_extremum(statement: Statement) -> TypeGuard[Reduce]:
    if not isinstance(statement, Reduce) or statement.combiner not in ("max", "min") or statement.rank is not None:
        return False
    return "float" in statement.value.dtype


def _cuts(found: _Place) -> frozenset[Axis]:
    """Axes of the grid that say which segment of the row a block has."""
    bounds = (found.stream.start, found.stream.stop) if found.stream is not None else ()
    return frozenset(axis for bound in bounds for axis in axes_of(bound)) - set(found.extremum.target.axes)


@dataclass(frozen=True)
class _Facts:
    """What is known after some statements if an element of the extremum was a NaN.

    Args:
        differing: tensors that may hold something else where the extremum passed over it.
        fresh: whether the extremum's elements are still what they were.
        buffers: where each is a NaN.
        segments: tensors in memory that are one where the segment is the element's: the indices they were stored at,
            and the segment's place among these.
    """

    differing: frozenset[Tensor] = frozenset()
    fresh: bool = False
    buffers: Mapping[Tensor, Where] = field(default_factory=dict)
    segments: Mapping[Tensor, tuple[tuple[Expr, ...], int]] = field(default_factory=dict)

    def putting(self, tensor: Tensor, where: Where, differs: bool, read: frozenset[Tensor]) -> _Facts:
        """Once a tensor was written anew; ``read``: what the extremum's elements are computed from."""
        buffers = {t: w for t, w in self.buffers.items() if t != tensor}
        return _Facts(
            self.differing | {tensor} if differs else self.differing - {tensor},
            self.fresh and tensor not in read,
            buffers | ({tensor: where} if where is not None else {}),
            {t: n for t, n in self.segments.items() if t != tensor},
        )

    def everywhere(self) -> set[Tensor]:
        """Tensors that are in the whole row."""
        return {tensor for tensor, where in self.buffers.items() if isinstance(where, Everywhere)}

    def at_a_barrier(self, workspaces: Collection[Tensor]) -> _Facts:
        """What is left for another phase: what is in memory."""
        return _Facts(self.differing & frozenset(workspaces), segments=self.segments)


@dataclass(frozen=True)
class _Witnesses:
    """The search for witnesses of one extremum.

    Args:
        extremum: a reduction.
        workspaces: tensors that later phases read, and nothing else.
        cuts: axes that say which segment of its row it is of.
    """

    extremum: Reduce
    workspaces: Collection[Tensor]
    cuts: frozenset[Axis]

    @property
    def read(self) -> frozenset[Tensor]:
        """What the elements are computed from."""
        return _tensors(self.extremum.value)

    def after_extremum(self, found: _Place) -> _Facts | None:
        """What is known after its phase; None if something is stored that may differ."""
        facts = self.through(found.rest, _Facts(frozenset({self.extremum.target.tensor}), fresh=True))
        facts = self._kept(found.stream, facts) if found.stream is not None else facts
        for statement in found.after:
            alike = isinstance(statement, Stream) and _span(statement) == _span(found.stream)
            facts = self._step(statement, facts, alike) if facts is not None else None
        return facts

    def through(self, body: Sequence[Statement], facts: _Facts | None) -> _Facts | None:
        """What is known after some statements."""
        for statement in body:
            facts = self._step(statement, facts) if facts is not None else None
        return facts

    def _step(self, statement: Statement, facts: _Facts, alike: bool = False) -> _Facts | None:
        """After one statement; ``alike``: a stream over all the points that the extremum is of."""
        if isinstance(statement, Stream):
            nested = any(isinstance(inner, Stream) for inner in statement.body)
            if nested or any(self._differs(bound, facts) for bound in (statement.start, statement.stop)):
                return None
            return self._kept(statement, self.through(statement.body, facts) if alike else facts)
        if isinstance(statement, Store):
            return self._store(statement, facts)
        tensor = statement.target.tensor
        where = self._most(operands(statement), facts)
        differs = any(self._differs(value, facts) for value in operands(statement))
        if isinstance(statement, Fill | Map):
            return facts.putting(tensor, where, differs, self.read)
        differs = differs or tensor in facts.differing
        if isinstance(statement, Reduce) and statement.combiner not in ("sum", "prod"):
            return facts.putting(tensor, None, differs, self.read)
        held = facts.buffers.get(tensor)
        if where == statement.over or isinstance(held, Everywhere):
            where = Everywhere()
        return facts.putting(tensor, where or held, differs and not isinstance(where, Everywhere), self.read)

    def _kept(self, stream: Stream, facts: _Facts | None) -> _Facts | None:
        """What is still known after any number of a stream's iterations in which no element is a NaN."""
        while facts is not None:
            everywhere: dict[Tensor, Where] = {tensor: Everywhere() for tensor in facts.everywhere()}
            resting = replace(facts, fresh=False, buffers=everywhere)
            after = self.through(stream.body, resting)
            if after is None:
                return None
            left, differing = facts.everywhere() & after.everywhere(), facts.differing | after.differing
            if left == facts.everywhere() and differing == facts.differing:
                fresh = facts.fresh and self.read.isdisjoint(map(written, steps(stream.body)))
                segments = {t: n for t, n in facts.segments.items() if after.segments.get(t) == n}
                return replace(resting, fresh=fresh, segments=segments)
            facts = replace(facts, differing=differing, buffers={t: Everywhere() for t in left})
        return None

    def _store(self, statement: Store, facts: _Facts) -> _Facts | None:
        shown = isinstance(self._where(statement.value, facts), Everywhere)
        differs = self._differs(statement.value, facts)
        elsewhere = any(self._differs(part, facts) for part in statement.indices)
        if elsewhere or (differs and statement.tensor not in self.workspaces):
            return None
        facts = facts.putting(statement.tensor, None, differs, self.read)
        places = [place for place, part in enumerate(statement.indices) if axes_of(part) & self.cuts]
        if not shown or len(self.cuts) != 1 or len(places) != 1 or statement.indices[places[0]] not in self.cuts:
            return facts
        return replace(facts, segments={**facts.segments, statement.tensor: (statement.indices, places[0])})

    def _where(self, value: Expr, facts: _Facts) -> Where:
        if facts.fresh and value == self.extremum.value:
            return self.extremum.over
        if isinstance(value, Load) and value.tensor in facts.segments:
            indices, place = facts.segments[value.tensor]
            segment = value.indices[place]
            same_row = value.indices == (*indices[:place], segment, *indices[place + 1 :])
            return segment if same_row and isinstance(segment, Axis) else None
        if isinstance(value, Load):
            return facts.buffers.get(value.tensor)
        if not isinstance(value, Op) or value.name not in STRICT or "float" not in value.dtype:
            return None
        return self._most(value.args, facts)

    def _differs(self, value: Expr, facts: _Facts) -> bool:
        """Whether a value may be another where the extremum passed over a NaN."""
        if isinstance(self._where(value, facts), Everywhere) or self._holds(value, facts):
            return False
        if isinstance(value, Load) and value.tensor in facts.differing:
            return True
        if isinstance(value, Op) and value.name == "select" and self._holds(value.args[0], facts):
            return self._differs(value.args[1], facts)
        return any(self._differs(part, facts) for part in value.children)

    def _holds(self, condition: Expr, facts: _Facts) -> bool:
        """Whether a condition is true for sure: that a NaN is one."""
        if not isinstance(condition, Op) or condition.name not in ("isnan", "or"):
            return False
        if condition.name == "or":
            return any(self._holds(part, facts) for part in condition.args)
        return isinstance(self._where(condition.args[0], facts), Everywhere)

    def _most(self, values: Sequence[Expr], facts: _Facts) -> Where:
        """Where the first is that is one in the whole row, or else somewhere."""
        found = [where for value in values if (where := self._where(value, facts)) is not None]
        return next((where for where in found if isinstance(where, Everywhere)), found[0] if found else None)


def _span(stream: Stream | None) -> tuple[Axis, Expr, Expr] | None:
    return (stream.axis, stream.start, stream.stop) if stream is not None else None


def _tensors(value: Expr) -> frozenset[Tensor]:
    return frozenset(node.tensor for node in loads(value))
