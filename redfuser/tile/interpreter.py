"""The NumPy reference of both back ends: runs a tile program block by block, vectorised inside a tile.

A tile is clipped to its axis and stream, so that points outside never enter a result; a back end that
masks, peels or pads must agree with this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from redfuser.cascade.combiners import accumulate
from redfuser.expr import Axis, Expr, Load, Tensor, axis, load, transform
from redfuser.expr.evaluate import convert, evaluate, extreme_pair, open_mesh
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Reduce, Statement, Store, Stream, TileProgram
from redfuser.tile.remembering import Memory, arrays, exact_inputs, stored

Array = np.ndarray[Any, Any]


def interpret(program: TileProgram, inputs: Mapping[str, Array], dtype: str | None = None) -> dict[str, Array]:
    """Run a whole program.

    Args:
        program: a program that :func:`redfuser.tile.verifier.verify` accepts.
        inputs: contents of the program's inputs by name.
        dtype: ``None`` for the stated dtypes, ``"float64"`` for all floating point in float64.

    Returns:
        The outputs by name.

    Raises:
        KeyError: an input is missing.
        ValueError: an input hasn't the stated shape.
    """
    return interpret_blocks(program, inputs, None, dtype)[0]


def interpret_blocks(
    program: TileProgram,
    inputs: Mapping[str, Array],
    blocks: Collection[int] | None,
    dtype: str | None = None,
    known: Memory | None = None,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Run some blocks of the last phase, and of the phases before it those that share points with them.

    Args:
        blocks: positions in the last phase's grid, row-major; ``None`` for all.
        known: from other interpretations of this program, and for further ones.

    Returns:
        The outputs by name, and by name a boolean array that is True where an element was written.
        Floating-point elements that weren't are NaN.
    """
    memory: dict[Tensor, Array] = {}
    for tensor in program.inputs:
        value = np.asarray(inputs[tensor.name])
        if value.shape != tensor.shape:
            raise ValueError(f"input {tensor} was given with shape {value.shape}")
        memory[tensor] = convert(value, tensor.dtype, dtype)
    written: dict[Tensor, Array] = {}
    for tensor in (*program.workspaces, *program.outputs):
        memory[tensor] = _blank(tensor, dtype)
        written[tensor] = np.zeros(tensor.shape, dtype=bool)
    for phase, needed in zip(program.phases, needed_blocks(program, blocks), strict=True):
        exact = exact_inputs(program, phase) if known is not None else None
        left = known.recall(phase, needed, arrays(exact, inputs)) if known is not None and exact is not None else None
        if left is not None:
            memory |= {tensor: values for tensor, (values, _) in left.items()}
            written |= {tensor: where for tensor, (_, where) in left.items()}
            continue
        localised: dict[Expr, Any] = {}
        places = list(_ranges(phase))
        for number in needed:
            block = _Block(phase, memory, written, dict(places[number]), dtype, localised)
            with np.errstate(all="ignore"):  # NaN and infinities are values here
                block.run(phase.body)
        if known is not None and exact is not None:
            known.keep(phase, needed, arrays(exact, inputs), {t: (memory[t], written[t]) for t in stored(phase)})
    return (
        {tensor.name: memory[tensor] for tensor in program.outputs},
        {tensor.name: written[tensor] for tensor in program.outputs},
    )


def needed_blocks(program: TileProgram, blocks: Collection[int] | None) -> tuple[tuple[int, ...], ...]:
    """Which blocks of each phase some blocks of the last phase take: those that share points with them.

    Args:
        blocks: positions in the last phase's grid, row-major; ``None`` for all.

    Returns:
        Positions in the grid of each phase, row-major.
    """
    chosen = [ranges for n, ranges in enumerate(_ranges(program.phases[-1])) if blocks is None or n in blocks]
    return tuple(
        tuple(
            n for n, ranges in enumerate(_ranges(phase)) if blocks is None or any(_overlap(ranges, c) for c in chosen)
        )
        for phase in program.phases
    )


def _blank(tensor: Tensor, dtype: str | None) -> Array:
    """Storage that holds NaN where the type has one."""
    kind = convert(np.zeros(0), tensor.dtype, dtype).dtype
    real = kind.kind == "f" or tensor.dtype == "bfloat16"
    return np.full(tensor.shape, np.nan if real else 0, dtype=kind)


def _starts(phase: Phase) -> Iterator[dict[Axis, int]]:
    for position in product(*(range(tile.count) for tile in phase.grid)):
        yield {tile.axis: number * tile.size for tile, number in zip(phase.grid, position, strict=True)}


def _ranges(phase: Phase) -> Iterator[dict[Axis, range]]:
    """The points of each block."""
    sizes = {tile.axis: tile.size for tile in phase.grid}
    for starts in _starts(phase):
        yield {a: range(n, min(n + sizes[a], a.extent)) for a, n in starts.items()}


def _overlap(some: Mapping[Axis, range], others: Mapping[Axis, range]) -> bool:
    pairs = [(span, others[a]) for a, span in some.items() if a in others]
    return all(a.start < b.stop and b.start < a.stop for a, b in pairs)


def _local(coordinate: Axis) -> Axis:
    """The same axis counted from the tile's first point."""
    return axis(coordinate.name + ".local", coordinate.extent)


@dataclass
class _Block:
    """One block: where it is, and what its buffers hold."""

    phase: Phase
    memory: dict[Tensor, Array]
    written: dict[Tensor, Array]
    ranges: dict[Axis, range]
    dtype: str | None
    localised: dict[Expr, tuple[Expr, tuple[tuple[Tensor, tuple[Axis, ...]], ...]]]
    storage: dict[Tensor, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.storage = {buffer.tensor: _blank(buffer.tensor, self.dtype) for buffer in self.phase.buffers}

    def run(self, body: Sequence[Statement]) -> None:
        for statement in body:
            if isinstance(statement, Stream):
                self._stream(statement)
            elif isinstance(statement, Store):
                self._store(statement)
            elif isinstance(statement, Fill):
                view = self._view(statement.target)
                view[...] = extreme_pair(statement.value) if view.dtype.kind == "c" else statement.value
            elif isinstance(statement, Map):
                target = statement.target
                self._view(target)[...] = self._evaluate(statement.value, target.axes)
            elif isinstance(statement, Reduce):
                self._reduce(statement)
            else:
                self._contract(statement)

    def range_of(self, coordinate: Axis) -> range:
        return self.ranges.get(coordinate, range(coordinate.extent))

    def _stream(self, stream: Stream) -> None:
        first_points = {a: np.asarray(points.start) for a, points in self.ranges.items()}
        bounds = (evaluate(bound, self.memory, first_points, self.dtype) for bound in (stream.start, stream.stop))
        start, stop = (int(bound) for bound in bounds)
        for first in range(start, stop, stream.tile):
            self.ranges[stream.axis] = range(first, min(first + stream.tile, stop))
            self.run(stream.body)
        self.ranges.pop(stream.axis, None)

    def _reduce(self, statement: Reduce) -> None:
        space = statement.space
        shape = tuple(len(self.range_of(a)) for a in space)
        if shape[-1]:
            elements = np.broadcast_to(self._evaluate(statement.value, space), shape)
            view = self._view(statement.target)
            view[...] = accumulate(statement.combiner, view, elements)

    def _contract(self, statement: Contract) -> None:
        """A matrix product: axes of length 1 are dropped first, so that NumPy can hand it to BLAS."""
        space = (*statement.target.axes, statement.over)
        view = self._view(statement.target)
        shape = tuple(len(self.range_of(a)) for a in space)
        operands: list[Any] = []
        for operand in (statement.left, statement.right):
            value = self._evaluate(operand, space).astype(view.dtype, copy=False)
            kept = [d for d, length in enumerate(value.shape) if length != 1]
            operands += [value.reshape([value.shape[d] for d in kept]), kept]
        kept = [d for d, length in enumerate(shape[:-1]) if length != 1]
        view += np.einsum(*operands, kept, optimize=True).reshape(shape[:-1])

    def _store(self, statement: Store) -> None:
        value = self._evaluate(statement.value, statement.axes)
        shape = tuple(len(self.range_of(a)) for a in statement.axes)
        where = tuple(np.broadcast_to(self._evaluate(i, statement.axes), shape) for i in statement.indices)
        converted = convert(np.asarray(value), statement.tensor.dtype, self.dtype)
        self.memory[statement.tensor][where] = np.broadcast_to(converted, shape)
        self.written[statement.tensor][where] = True

    def _view(self, buffer: Buffer) -> Array:
        """The part of a buffer that the current tile covers."""
        return self._clip(buffer.tensor, buffer.axes)

    def _clip(self, tensor: Tensor, axes: Sequence[Axis]) -> Array:
        parts: list[Any] = []
        for extent, coordinate in zip(tensor.shape, axes, strict=True):
            points = self.range_of(coordinate)
            whole = extent == coordinate.extent
            parts.append(slice(points.start, points.stop) if whole else slice(0, len(points)))
        parts.append(...)  # keeps a view where there are no axes
        return self.storage[tensor][tuple(parts)]

    def _evaluate(self, expr: Expr, space: Sequence[Axis]) -> Array:
        """Values over the current tile of ``space``; one dimension for each axis, of length 1 where constant."""
        if expr not in self.localised:
            self.localised[expr] = self._localise(expr)
        local_expr, used = self.localised[expr]
        views = {tensor: self._clip(tensor, axes) for tensor, axes in used}
        mesh = open_mesh(space, {a: self.range_of(a) for a in space})
        mesh |= {_local(a): points - points.flat[0] if points.size else points for a, points in mesh.items()}
        for loose, points in self.ranges.items():
            if loose not in mesh and len(points) == 1:
                mesh[loose], mesh[_local(loose)] = np.asarray(points.start), np.asarray(0)
        value = evaluate(local_expr, {**self.memory, **views}, mesh, self.dtype)
        return value.reshape((1,) * (len(space) - value.ndim) + value.shape)

    def _localise(self, expr: Expr) -> tuple[Expr, tuple[tuple[Tensor, tuple[Axis, ...]], ...]]:
        """The expression with buffers read at local coordinates, and the buffers it reads."""
        used: dict[Tensor, tuple[Axis, ...]] = {}

        def rule(node: Expr) -> Expr:
            if not isinstance(node, Load) or node.tensor not in self.storage:
                return node
            used[node.tensor] = tuple(i for i in node.indices if isinstance(i, Axis))
            return load(node.tensor, *map(_local, used[node.tensor]))

        return transform(expr, rule), tuple(used.items())
