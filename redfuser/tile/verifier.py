"""What every tile program must satisfy; a broken rule names the statement."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from redfuser.cascade.model import IDENTITIES, LISTS
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, loads
from redfuser.expr.binding import dims_in
from redfuser.tile.concrete import program_at, trial_sizes
from redfuser.tile.coverage import Coverage, bounds_of
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Reduce, Statement, Store, Stream, TileProgram


class TileError(AssertionError):
    """A tile program breaks a rule of the IR: a bug of the strategy that built it.

    Args:
        statement: where.
        rule: what is wrong.
    """

    def __init__(self, statement: object, rule: str) -> None:
        super().__init__(f"{rule}: {statement}")


def verify(program: TileProgram) -> None:
    """Check a program.

    * Every buffer and tensor is declared, with the shape of its tile.
    * A value varies only along the axes of its target, what is reduced, and axes whose tile is one point.
    * Nothing on chip is read before it is written, no workspace before an earlier phase filled it.
    * Operands of a ``contract`` make a matrix product; a ``reduce`` folds an axis that its target hasn't, and keeps a
      list whole.
    * Streams lie inside their axis; those that store cover it.
    * Every element of an output or workspace is stored exactly once.

    A program over symbolic sizes is checked at several.

    Raises:
        TileError: names the statement and the rule.
    """
    if dims_in(program):
        for sizes in trial_sizes(program):
            verify(program_at(program, sizes))
        return
    memory = (*program.inputs, *program.outputs, *program.workspaces)
    names = [tensor.name for tensor in memory]
    if len(set(names)) != len(names):
        raise TileError(program.name, "two tensors in memory have one name")
    filled = set(program.inputs)
    stored: dict[Tensor, Store] = {}
    for phase in program.phases:
        checker = _PhaseChecker(phase, frozenset(filled), frozenset((*program.outputs, *program.workspaces)), stored)
        checker.check()
        filled |= stored.keys() & set(program.workspaces)
    for tensor in (*program.outputs, *program.workspaces):
        if tensor not in stored:
            raise TileError(tensor, "never stored")


@dataclass
class _PhaseChecker:
    phase: Phase
    readable: frozenset[Tensor]
    writable: frozenset[Tensor]
    stored: dict[Tensor, Store]
    buffers: dict[Tensor, Buffer] = field(default_factory=dict)
    tiles: dict[Axis, int] = field(default_factory=dict)
    streams: list[Stream] = field(default_factory=list)
    written: set[Tensor] = field(default_factory=set)

    def check(self) -> None:
        for tile in self.phase.grid:
            if not 1 <= tile.size <= max(tile.axis.extent, 1) or tile.axis in self.tiles:
                raise TileError(tile, "a grid tile must be between one point and its axis, one for each axis")
            self.tiles[tile.axis] = tile.size
        for buffer in self.phase.buffers:
            if buffer.tensor in self.buffers or len(set(buffer.axes)) != len(buffer.axes):
                raise TileError(buffer, "declared twice, or has an axis twice")
            if len(buffer.tensor.shape) != len(buffer.axes):
                raise TileError(buffer.tensor, "a buffer has one extent for each axis")
            self.buffers[buffer.tensor] = buffer
        self._body(self.phase.body)

    def _body(self, body: Iterable[Statement]) -> None:
        for statement in body:
            if isinstance(statement, Stream):
                self._stream(statement)
            elif isinstance(statement, Store):
                self._store(statement)
            else:
                self._update(statement)

    def _stream(self, stream: Stream) -> None:
        if stream.axis in self.tiles or not 1 <= stream.tile <= max(stream.axis.extent, 1):
            raise TileError(stream, "a stream needs a free axis and a tile between one point and all of it")
        for bound in (stream.start, stream.stop):
            self._single_point(stream, bound, [tile.axis for tile in self.phase.grid])
            for node in loads(bound):
                if node.tensor not in self.readable:
                    raise TileError(stream, f"{node.tensor.name} is not an input or a filled workspace")
        low, high = bounds_of(stream.start)[0], bounds_of(stream.stop)[1]
        if low < 0 or high > stream.axis.extent:
            raise TileError(stream, "a stream must stay inside its axis")
        before = set(self.written)
        self.tiles[stream.axis] = stream.tile
        self.streams.append(stream)
        self._body(stream.body)
        self.streams.pop()
        del self.tiles[stream.axis]
        self.written = before | {t for t in self.written if self._outlives(self.buffers[t], stream)}

    @staticmethod
    def _outlives(buffer: Buffer, stream: Stream) -> bool:
        """Whether what a stream wrote is there after it: only what covers its axis, for a stream may be empty."""
        pairs = zip(buffer.axes, buffer.tensor.shape, strict=True)
        return any(a == stream.axis and n == a.extent for a, n in pairs)

    def _update(self, statement: Fill | Map | Reduce | Contract) -> None:
        target = statement.target
        self._declared(statement, target)
        if isinstance(statement, Map):
            self._value(statement, statement.value, target.axes)
        elif isinstance(statement, Reduce | Contract):
            self._folded(statement)
        self.written.add(target.tensor)

    def _folded(self, statement: Reduce | Contract) -> None:
        target, over = statement.target, statement.over
        if over in target.axes:
            raise TileError(statement, f"folds {over.name}, an axis of its target")
        if target.tensor not in self.written:
            raise TileError(statement, f"{target.tensor.name} is read before it is written")
        if isinstance(statement, Reduce):
            if statement.combiner not in IDENTITIES:
                raise TileError(statement, f"unknown combiner {statement.combiner}")
            if (statement.combiner in LISTS) != (statement.rank is not None):
                raise TileError(statement, "a list, and nothing else, has places")
            if statement.rank is not None and (target.axes[-1:] != (statement.rank,) or statement.rank in self.tiles):
                raise TileError(statement, f"the places {statement.rank.name} are the last axis and whole on chip")
            self._value(statement, statement.value, statement.space)
        else:
            self._value(statement, statement.left, (*target.axes, over))
            self._value(statement, statement.right, (*target.axes, over))
            self._matrix_product(statement)

    def _matrix_product(self, statement: Contract) -> None:
        left, right = axes_of(statement.left), axes_of(statement.right)
        target = set(statement.target.axes)
        wide = {a for a in target if self.tiles.get(a, a.extent) > 1}
        if statement.over not in left & right:
            raise TileError(statement, f"both operands must vary with {statement.over.name}")
        if wide - left - right:
            raise TileError(statement, "an axis of the target appears in neither operand")
        if not (target & left) - right or not (target & right) - left:
            raise TileError(statement, "each operand needs an axis of the target that the other lacks")

    def _store(self, statement: Store) -> None:
        if statement.tensor not in self.writable:
            raise TileError(statement, f"{statement.tensor.name} is not an output or workspace")
        if statement.tensor in self.stored:
            raise TileError(statement, f"{statement.tensor.name} is stored by two statements")
        self.stored[statement.tensor] = statement
        self._value(statement, statement.value, statement.axes)
        for position in statement.indices:
            self._value(statement, position, statement.axes)
        coverage = Coverage(self.phase.grid, tuple(self.streams))
        problem = coverage.problem(statement)
        if problem:
            raise TileError(statement, problem)

    def _declared(self, statement: Statement, buffer: Buffer) -> None:
        """A buffer is declared, with the tile's shape; along a streamed axis it may be whole."""
        if self.buffers.get(buffer.tensor) != buffer:
            raise TileError(statement, f"{buffer.tensor.name} is not declared")
        streamed = {stream.axis for stream in self.streams}
        for coordinate, extent in zip(buffer.axes, buffer.tensor.shape, strict=True):
            whole = extent == coordinate.extent and (coordinate in streamed or coordinate not in self.tiles)
            if not whole and extent != self.tiles.get(coordinate, coordinate.extent):
                raise TileError(statement, f"{buffer.tensor.name} has {extent} points of {coordinate.name}")

    def _value(self, statement: Statement, value: Expr, space: Collection[Axis]) -> None:
        self._single_point(statement, value, space)
        for node in loads(value):
            if node.tensor in self.buffers:
                self._on_chip(statement, node)
            elif node.tensor not in self.readable:
                raise TileError(statement, f"{node.tensor.name} is not an input, a buffer or a filled workspace")

    def _single_point(self, statement: Statement, value: Expr, space: Collection[Axis]) -> None:
        loose = sorted(a.name for a in axes_of(value) - set(space) if self.tiles.get(a, 0) != 1)
        if loose:
            raise TileError(statement, f"a value varies along {', '.join(loose)}, which the statement doesn't run over")

    def _on_chip(self, statement: Statement, node: Load) -> None:
        buffer = self.buffers[node.tensor]
        self._declared(statement, buffer)
        if node != buffer.value:
            raise TileError(statement, f"{node} is not at the buffer's own axes")
        if node.tensor not in self.written:
            raise TileError(statement, f"{node.tensor.name} is read before it is written")
