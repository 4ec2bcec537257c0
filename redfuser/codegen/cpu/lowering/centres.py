"""Differences from a centre in single precision, as exact as in double.

A mean is summed in double precision (:mod:`redfuser.cascade.precision.centre`). Elements needn't be widened for it: the
mean ``c`` is the sum of two singles ``h + t`` to 48 bits, and ``(x - h) - t`` is within two roundings of ``x - c``, for
``x - h`` is exact where ``x`` is near ``h`` (Sterbenz 1974) and large where it isn't. Sums run in singles within a tile
and in doubles from tile to tile: squares of such differences don't cancel, and elements are summed as differences from
one of them, which loses digits only in proportion to the row's spread. It is the median of three, so that a lone
outlier isn't chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf

from redfuser.expr import Axis, Expr, Op, Tensor, axes_of, cast, index, loads, number, op, substitute, walk
from redfuser.extents import is_symbolic
from redfuser.tile.ir import Buffer, Fill, Map, Phase, Reduce, Statement, Store, Stream
from redfuser.tile.walk import steps

SINGLE, DOUBLE = "float32", "float64"

#: A tile with more points than this is summed in doubles.
MOST_POINTS = 4096


def split_centres(phase: Phase, lanes: Axis | None) -> Phase:
    """The phase with such differences and sums in singles, where elements lie along the lanes.

    Nothing changes where a double is stored: then double precision is what is asked for.

    Args:
        lanes: the axis along vector lanes.
    """
    stored = [s.tensor.dtype for s in steps(phase.body) if isinstance(s, Store)]
    if lanes is None or DOUBLE in stored:
        return phase
    maps = {s.target: s for s in phase.body if isinstance(s, Map) and s.target.tensor.dtype == DOUBLE}
    for centre in sorted(maps, key=lambda buffer: buffer.tensor.name):
        values = [s.value for s in steps(phase.body) if isinstance(s, Map | Reduce | Store)]
        if lanes not in centre.axes and any(_elements(value, centre, lanes) for value in values):
            phase = _Split(phase, centre, lanes, maps[centre].value).run()
    return phase


@dataclass
class _Split:
    """One centre of a phase in two parts.

    Args:
        centre: a double.
        lanes: the axis along vector lanes.
        value: what the centre is set to.

    Attributes:
        added: buffers to add to the phase.
    """

    phase: Phase
    centre: Buffer
    lanes: Axis
    value: Expr
    added: list[Buffer] = field(default_factory=list)

    def run(self) -> Phase:
        """The phase with singles in place of doubles."""
        self.high, self.low = (self._single(self.centre, part) for part in ("high", "low"))
        body = tuple(new for statement in self.phase.body for new in self._statement(statement))
        return replace(self.phase, body=body, buffers=(*self.phase.buffers, *self.added))

    def _single(self, buffer: Buffer, part: str) -> Buffer:
        """A buffer of singles, named after another one and a part of it."""
        made = Buffer(Tensor(f"{buffer.tensor.name}.{part}", buffer.tensor.shape, SINGLE), buffer.axes)
        self.added.append(made)
        return made

    def _statement(self, statement: Statement) -> Iterator[Statement]:
        if isinstance(statement, Stream):
            yield from self._stream(statement)
        elif isinstance(statement, Map) and statement.target == self.centre:
            rest = op("sub", self.centre.value, cast(self.high.value, DOUBLE))
            finite = op("select", op("isnan", rest), number(0, DOUBLE), rest)  # nothing is left of an infinity
            yield from (statement, Map(self.high, cast(self.centre.value, SINGLE)), Map(self.low, cast(finite, SINGLE)))
        elif isinstance(statement, Map | Reduce | Store):
            yield self._narrowed(statement)
        else:
            yield statement

    def _narrowed(self, statement: Map | Reduce | Store) -> Statement:
        """A statement with differences that are rounded to single computed in single."""
        found = _elements(statement.value, self.centre, self.lanes)
        singles = {cast(node, SINGLE): self._difference(element) for node, element in found.items()}
        return replace(statement, value=substitute(statement.value, singles))

    def _difference(self, element: Expr) -> Expr:
        return op("sub", op("sub", element, self.high.value), self.low.value)

    def _stream(self, stream: Stream) -> Iterator[Statement]:
        """A stream whose sums go by tiles of singles, with what comes before and after it."""
        before: list[Statement] = []
        body: list[Statement] = []
        after: list[Statement] = []
        short = stream.axis == self.lanes and stream.tile <= MOST_POINTS
        for statement in stream.body:
            if short and isinstance(statement, Reduce) and (element := self._squared(statement)) is not None:
                difference = self._difference(element)
                body += self._by_tiles(statement, op("mul", difference, difference))
            elif short and isinstance(statement, Reduce) and (element := self._summed(statement, stream)) is not None:
                origin, terms, total = self._from_origin(statement, element, stream.tile)
                before.append(origin)
                body += self._by_tiles(statement, terms)
                after.append(total)
            else:
                body += self._statement(statement)
        yield from (*before, replace(stream, body=tuple(body)), *after)

    def _by_tiles(self, statement: Reduce, terms: Expr) -> tuple[Statement, ...]:
        """A sum of singles over one tile, added to what it is a part of."""
        target = statement.target
        partial = self._single(target, "tile")
        total = op("add", target.value, cast(partial.value, DOUBLE))
        return Fill(partial, 0.0), Reduce(partial, "sum", terms, statement.over), Map(target, total)

    def _squared(self, statement: Reduce) -> Expr | None:
        """The element of which a reduction sums the squared difference from the centre."""
        value = statement.value
        if statement.combiner != "sum" or not (isinstance(value, Op) and value.name == "mul"):
            return None
        element = _elements(value.args[0], self.centre, self.lanes).get(value.args[0])
        return element if value.args[0] == value.args[1] else None

    def _summed(self, statement: Reduce, stream: Stream) -> Expr | None:
        """The element that a reduction sums to make the centre, and nothing else, of it.

        It must be read from memory, all along the axis, whose length is known.
        """
        element, target = _widened(statement.value), statement.target.tensor
        whole = not is_symbolic(stream.axis.extent) and stream.axis.extent > 0
        whole = whole and (stream.start, stream.stop) == (index(0), index(stream.axis.extent))
        if element is None or not whole or statement.combiner != "sum":
            return None
        readers = [s for s in steps(self.phase.body) if isinstance(s, Map | Reduce | Store) and _reads(s.value, target)]
        on_chip = {buffer.tensor for buffer in self.phase.buffers}
        if [r.value for r in readers] != [self.value] or {node.tensor for node in loads(element)} & on_chip:
            return None
        return element

    def _from_origin(self, statement: Reduce, element: Expr, tile: int) -> tuple[Map, Expr, Map]:
        """An element as origin, the terms of the sum, and what makes it the sum of the elements.

        Terms are scaled by a power of two, so that no sum over a tile overflows. An element that isn't finite is no
        origin: it would hide which others aren't.
        """
        target, origin = statement.target, self._single(statement.target, "origin")
        scale = 2.0 ** -(2 * tile - 1).bit_length()
        scaled = op("mul", element, number(scale, SINGLE))
        last = self.lanes.extent - 1
        middle = _median(*(substitute(scaled, {self.lanes: index(n)}) for n in (0, last // 2, last)))
        finite = op("lt", op("abs", middle), number(inf, SINGLE))
        left_out = op("mul", cast(origin.value, DOUBLE), number(self.lanes.extent, DOUBLE))
        total = op("mul", op("add", target.value, left_out), number(1 / scale, DOUBLE))
        start = Map(origin, op("select", finite, middle, number(0, SINGLE)))
        return start, op("sub", scaled, origin.value), Map(target, total)


def _median(a: Expr, b: Expr, c: Expr) -> Expr:
    return op("max", op("min", a, b), op("min", op("max", a, b), c))


def _reads(value: Expr, tensor: Tensor) -> bool:
    return any(node.tensor == tensor for node in loads(value))


def _elements(value: Expr, centre: Buffer, lanes: Axis) -> dict[Expr, Expr]:
    """Differences in double of an element in single and the centre -> the element."""
    found: dict[Expr, Expr] = {}
    for node in walk(value):
        if isinstance(node, Op) and node.name == "sub" and node.args[1] == centre.value:
            element = _widened(node.args[0])
            if element is not None and lanes in axes_of(element):
                found[node] = element
    return found


def _widened(value: Expr) -> Expr | None:
    """The single that a double is a cast of."""
    single = isinstance(value, Op) and value.name == "cast" and value.dtype == DOUBLE and value.args[0].dtype == SINGLE
    return value.args[0] if isinstance(value, Op) and single else None
