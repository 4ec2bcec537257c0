"""Writes one phase: buffers, statements, and values that are computed once and kept in a buffer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Axis, Expr, Load, Op, Tensor, axes_of, cast, loads
from redfuser.extents import most
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Reduce, Statement, Store, Stream, Tile
from redfuser.tile.monoid import identity
from redfuser.tile.products import split_product
from redfuser.tile.sharing import computed, expensive, shared_values
from redfuser.tile.strategies.reuse import reuse_buffers

#: A value that is this many times smaller than the statement using it is worth a buffer, however cheap it is.
WORTH_HOISTING = 8


@dataclass(eq=False)
class Scope:
    """A block's or a stream's body being written.

    Args:
        axis: the axis streamed; ``None`` for the block itself.
        shared: values that several statements of the body use.
        changing: buffers that differ from one iteration to the next.
        known: value -> where it is kept.
    """

    axis: Axis | None = None
    shared: frozenset[Expr] = frozenset()
    changing: set[Tensor] = field(default_factory=set)
    known: dict[Expr, Expr] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)


class Emitter:
    """Builds one phase of one cascade.

    Values are given as expressions over inputs, producers and buffers; :meth:`lower` replaces what is kept in a
    buffer by a read of it, and computes it first where that hasn't happened yet: at the outermost place
    where everything it needs is there.

    Args:
        cascade: for its producers, the order of its axes and the names already taken.
        grid: the phase's grid.
        keep: values whose buffer covers the whole streamed axis, for later streams to read.

    Attributes:
        names: preferred buffer names of some values.
    """

    def __init__(self, cascade: Cascade, grid: Sequence[Tile], keep: Collection[Expr] = ()) -> None:
        self.grid = tuple(grid)
        self.producers = {producer.result: producer for producer in cascade.producers}
        self.keep = frozenset(keep)
        self.names: dict[Expr, str] = {}
        self.tiles = {tile.axis: tile.size for tile in grid}
        self.order = axis_order(cascade)
        self.in_memory = {tensor.name for tensor in (*cascade.inputs, *(output.tensor for output in cascade.outputs))}
        self.buffers: dict[str, Buffer] = {}
        self.scopes = [Scope()]

    def phase(self) -> Phase:
        """Everything written, with buffers shared where one value takes the place of another."""
        return reuse_buffers(Phase(self.grid, tuple(self.buffers.values()), tuple(self.scopes[0].statements)))

    def tile(self, coordinate: Axis) -> int:
        """How many points of an axis the current tile holds."""
        return self.tiles.get(coordinate, coordinate.extent)

    def buffer(self, name: str, dtype: str, axes: Collection[Axis], whole: bool = False) -> Buffer:
        """Declare a buffer under a name like ``name``; ``whole`` makes it cover the whole streamed axis."""
        unique, number = name, 1
        while unique in self.buffers or unique in self.in_memory:
            unique, number = f"{name}.{number}", number + 1
        streamed = {scope.axis for scope in self.scopes} if whole else set()
        ordered = tuple(sorted(axes, key=self._position))
        shape = tuple(a.extent if a in streamed else self.tile(a) for a in ordered)
        self.buffers[unique] = Buffer(Tensor(unique, shape, dtype), ordered)
        return self.buffers[unique]

    def _position(self, coordinate: Axis) -> tuple[int, str]:
        known = coordinate in self.order
        return (self.order.index(coordinate) if known else -1, coordinate.name)

    def emit(self, statement: Statement) -> None:
        """Add a statement as it is."""
        self.scopes[-1].statements.append(statement)

    def share(self, groups: Sequence[Collection[Expr]]) -> None:
        """Announce what the statements to come use, one group a statement, so that common parts are kept."""
        self.scopes[-1].shared = shared_values(groups)

    @contextmanager
    def stream(
        self,
        axis: Axis,
        tile: int,
        bounds: tuple[Expr, Expr],
        groups: Sequence[Collection[Expr]],
        changing: set[Tensor],
    ) -> Iterator[None]:
        """Write a stream's body inside the ``with``; ``changing`` are the buffers that its iterations update."""
        self.scopes.append(Scope(axis, shared_values(groups), set(changing)))
        self.tiles[axis] = tile
        yield
        body = self.scopes.pop().statements
        del self.tiles[axis]
        self.emit(Stream(axis, tile, tuple(body), *bounds))

    def accumulate(self, target: Buffer, combiner: str, value: Expr, over: Axis, rank: Axis | None = None) -> None:
        """Fold ``value`` over the current tile of ``over`` into ``target``: as a matrix product where it is one."""
        split = split_product(value, target.axes, over, self.tile) if combiner == "sum" else None
        if split is None:
            value = self.lower(value, (*(a for a in target.axes if a != rank), over))
            self.emit(Reduce(target, combiner, cast(value, target.tensor.dtype), over, rank))
            return
        left, right = self._left_operand(split[0]), self.lower(split[1], axes_of(split[1]))
        self.emit(Contract(target, left, right, over))

    def _left_operand(self, value: Expr) -> Expr:
        """A buffer, or memory where the stream moves on: what stays in place is packed once, before the stream."""
        inner = self.scopes[-1].axis
        packed = isinstance(value, Load) and (value.tensor in self.producers or value.tensor.name in self.buffers)
        if packed or (isinstance(value, Load) and (inner is None or inner in axes_of(value))):
            return self.lower(value, axes_of(value))
        return self.materialise(value)

    def store(self, output: Output, value: Expr) -> None:
        """Write an output's points inside the current tile."""
        self.emit(Store(output.tensor, output.axes, output.indices, self.lower(value, output.axes)))

    def lower(self, expr: Expr, space: Collection[Axis]) -> Expr:
        """``expr`` as a statement that runs over ``space`` reads it."""
        points = self._points(space)
        memo: dict[Expr, Expr] = {}

        def visit(node: Expr) -> Expr:
            if node not in memo:
                memo[node] = self._known(node) or compute(node)
            return memo[node]

        def compute(node: Expr) -> Expr:
            if isinstance(node, Load):
                return self._produce(self.producers[node.tensor], node) if node.tensor in self.producers else node
            if self._worth_keeping(node, points):
                return self.materialise(node)
            return node.rebuild(tuple(map(visit, node.children)))

        return visit(expr)

    def materialise(self, value: Expr) -> Expr:
        """Keep a value in a buffer of its own; gives the read of it."""
        known = self._known(value)
        if known is not None:
            return known
        axes = axes_of(value)
        inner = value
        if isinstance(value, Op):
            inner = value.rebuild(tuple(self.lower(child, axes) for child in value.children))
        scope = self._place(inner, axes)
        target = self.buffer(self._name(value), value.dtype, axes, value in self.keep)
        scope.statements.append(Map(target, inner))
        self._remember(value, target, scope)
        return target.value

    def _produce(self, producer: Reduction, value: Load) -> Expr:
        scope = self.scopes[-1]
        target = self.buffer(producer.result.name, producer.result.dtype, producer.axes, value in self.keep)
        self.emit(Fill(target, identity(producer.combiner, producer.result.dtype)))
        self.accumulate(target, producer.combiner, producer.map, producer.over)
        self._remember(value, target, scope)
        return target.value

    def _remember(self, value: Expr, target: Buffer, scope: Scope) -> None:
        scope.changing.add(target.tensor)
        if value in self.keep and scope.axis is not None:
            scope = self.scopes[self.scopes.index(scope) - 1]
        scope.known[value] = target.value

    def _known(self, value: Expr) -> Expr | None:
        return next((s.known[value] for s in reversed(self.scopes) if value in s.known), None)

    def _place(self, value: Expr, axes: Collection[Axis]) -> Scope:
        """The outermost scope in which a value can be computed."""
        read = {node.tensor for node in loads(value)}
        for scope in reversed(self.scopes):
            if scope.axis is None or scope.axis in axes or scope.changing & read:
                return scope
        raise AssertionError("the outermost scope has no axis")

    def _worth_keeping(self, value: Expr, points: int) -> bool:
        if not computed(value):
            return False
        if value in self.keep or any(value in scope.shared for scope in self.scopes):
            return True
        own = self._points(axes_of(value))
        return own * WORTH_HOISTING <= points or (own < points and expensive(value))

    def _points(self, axes: Collection[Axis]) -> int:
        result = 1
        for coordinate in axes:
            result *= most(self.tile(coordinate))
        return result

    def _name(self, value: Expr) -> str:
        if value in self.names:
            return self.names[value]
        if isinstance(value, Load):
            return f"{value.tensor.name}.tile"
        assert isinstance(value, Op)
        return value.name


def axis_order(cascade: Cascade) -> list[Axis]:
    """Axes as a buffer orders them: rows, the shared axis, the others as reductions and outputs introduce them."""
    order = dict.fromkeys((*cascade.rows, cascade.axis))
    for item in (*cascade.producers, *cascade.reductions, *cascade.epilogues):
        order |= dict.fromkeys((*item.axes, item.over))
    for output in cascade.outputs:
        order |= dict.fromkeys(output.axes)
    return list(order)
