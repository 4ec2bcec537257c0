"""Rewrites of a phase that keep its meaning and suit a GPU: loops of one turn go, repeated loads are kept on chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from redfuser.codegen.gpu.emission.geometry import single_tile
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, loads, substitute
from redfuser.extents import Extent, most
from redfuser.tile.ir import Buffer, Contract, Map, Phase, Reduce, Statement, Store, Stream
from redfuser.tile.strategies.reuse import rewrite
from redfuser.tile.walk import statements


def prepare(phase: Phase) -> Phase:
    """The phase as it is written out."""
    return _stage(_compute_positions(replace(phase, body=_inline(phase.body))))


def _inline(body: Sequence[Statement]) -> tuple[Statement, ...]:
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, Stream):
            inner = _inline(statement.body)
            result += inner if single_tile(statement) else [replace(statement, body=inner)]
        else:
            result.append(statement)
    return tuple(result)


def _compute_positions(phase: Phase) -> Phase:
    """Where buffers hold what follows from positions alone, it is computed where it is read."""
    maps = {s.target: s.value for s in statements(phase.body) if isinstance(s, Map) and not loads(s.value)}
    positions = {target.value: value for target, value in maps.items() if axes_of(value)}
    if not positions:
        return phase
    buffers = tuple(buffer for buffer in phase.buffers if buffer.value not in positions)
    return replace(phase, buffers=buffers, body=_without(phase.body, positions))


def _without(body: Sequence[Statement], values: Mapping[Expr, Expr]) -> tuple[Statement, ...]:
    result: list[Statement] = []
    for statement in body:
        if isinstance(statement, Stream):
            result.append(replace(statement, body=_without(statement.body, values)))
        elif isinstance(statement, Store) or statement.target.value not in values:
            result.append(rewrite(statement, lambda value: substitute(value, values), lambda target: target))
    return tuple(result)


def _stage(phase: Phase) -> Phase:
    """Keep on chip what two or more statements of one body read from memory element by element."""
    stage = _Stage(phase)
    body = stage.body(phase.body)
    return replace(phase, buffers=(*phase.buffers, *stage.buffers), body=body)


class _Stage:
    def __init__(self, phase: Phase) -> None:
        self.on_chip = {buffer.tensor for buffer in phase.buffers}
        self.names = {tensor.name for tensor in self.on_chip}
        self.tiles = {tile.axis: tile.size for tile in phase.grid}
        self.order = _axis_order(phase)
        self.multiplies = any(isinstance(statement, Contract) for statement in statements(phase.body))
        self.buffers: list[Buffer] = []

    def body(self, body: Sequence[Statement], least: int = 2) -> tuple[Statement, ...]:
        """Statements that read kept elements: those with at least so many uses."""
        uses: dict[Load, int] = {}
        for statement in body:
            for node in _elements(statement):
                if node.tensor not in self.on_chip and self._worth_keeping(node):
                    uses[node] = uses.get(node, 0) + 1
        repeated = {node for node, count in uses.items() if count >= least}
        kept: dict[Load, Expr] = {}
        result: list[Statement] = []
        for statement in body:
            if isinstance(statement, Stream):
                result.append(self._stream(statement))
                continue
            for node in _elements(statement):
                if node in repeated and node not in kept:
                    buffer = self._buffer(node)
                    kept[node] = buffer.value
                    result.append(Map(buffer, node))
            result.append(_read(statement, kept))
        return tuple(result)

    def _stream(self, stream: Stream) -> Stream:
        self.tiles[stream.axis] = stream.tile
        body = self.body(stream.body, least=1 if self.multiplies and only_folds(stream) else 2)
        del self.tiles[stream.axis]
        return replace(stream, body=body)

    def _tile(self, axis: Axis) -> Extent:
        return self.tiles.get(axis, axis.extent)

    def _worth_keeping(self, node: Load) -> bool:
        """Values read at positions known in advance; single numbers aren't worth it."""
        plain = not any(loads(position) for position in node.indices)
        return plain and any(most(self._tile(axis)) > 1 for axis in axes_of(node))

    def _buffer(self, node: Load) -> Buffer:
        axes = tuple(sorted(axes_of(node), key=self.order.index))
        name, number = f"{node.tensor.name}.tile", 1
        while name in self.names:
            name, number = f"{node.tensor.name}.tile.{number}", number + 1
        self.names.add(name)
        buffer = Buffer(Tensor(name, tuple(map(self._tile, axes)), node.dtype), axes)
        self.buffers.append(buffer)
        return buffer


def only_folds(stream: Stream) -> bool:
    """Whether a stream reads tiles to fold them, without matrix products.

    Beside a pipeline of products such a loop must copy tiles too: TileLang overlaps copies with work in all loops of a
    kernel or in none.
    """
    return all(isinstance(statement, Reduce | Map) for statement in stream.body)


def _elements(statement: Statement) -> tuple[Load, ...]:
    """What a statement loads element by element; matrix products take whole tiles."""
    value = getattr(statement, "value", None)
    if isinstance(statement, Stream | Contract) or not isinstance(value, Expr):
        return ()
    return loads(value)


def _read(statement: Statement, kept: Mapping[Load, Expr]) -> Statement:
    if isinstance(statement, Contract) or not kept:
        return statement
    return rewrite(statement, lambda value: substitute(value, kept), lambda target: target)


def _axis_order(phase: Phase) -> list[Axis]:
    """Axes as buffers have them: those of the grid first."""
    order = dict.fromkeys(tile.axis for tile in phase.grid)
    for statement in statements(phase.body):
        if isinstance(statement, Store):
            order |= dict.fromkeys(statement.axes)
        elif isinstance(statement, Stream):
            order |= {statement.axis: None}
        else:
            order |= dict.fromkeys(statement.target.axes)
            if isinstance(statement, Reduce | Contract):
                order |= {statement.over: None}
    return list(order)
