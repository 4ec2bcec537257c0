"""Sharing of on-chip storage: a value that replaces another takes its buffer (scores → probabilities)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from redfuser.expr import Axis, Expr, Load, Tensor, load, loads, transform
from redfuser.extents import larger
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Statement, Store, Stream
from redfuser.tile.walk import operands


@dataclass(frozen=True)
class _Touch:
    """One statement that reads or writes a buffer: its position in program order, and the stream it is in."""

    position: int
    stream: int
    axis: Axis | None


def reuse_buffers(phase: Phase) -> Phase:
    """Let ``map B = f(A)`` write into A's storage where that is A's last use and they are alike.

    Only buffers along the streamed axis are shared: those are the large ones. Unused buffers are dropped.
    """
    while (pair := _find_pair(phase)) is not None:
        phase = _merge(phase, *pair)
    used = {tensor for statement in _flatten(phase.body) for tensor in _touched(statement[0])}
    return replace(phase, buffers=tuple(b for b in phase.buffers if b.tensor in used))


def _find_pair(phase: Phase) -> tuple[Buffer, Buffer] | None:
    buffers = {buffer.tensor: buffer for buffer in phase.buffers}
    touches: dict[Tensor, list[_Touch]] = {}
    statements = [
        (statement, _Touch(n, where, axis)) for n, (statement, where, axis) in enumerate(_flatten(phase.body))
    ]
    for statement, touch in statements:
        for tensor in _touched(statement):
            if tensor in buffers:
                touches.setdefault(tensor, []).append(touch)
    for statement, here in statements:
        if not isinstance(statement, Map) or touches[statement.target.tensor][0] != here or here.axis is None:
            continue
        for read in loads(statement.value):
            source = buffers.get(read.tensor)
            if source and _replaces(statement.target, source, here, touches[source.tensor]):
                return statement.target, source
    return None


def _replaces(target: Buffer, source: Buffer, here: _Touch, touches: Sequence[_Touch]) -> bool:
    """Whether ``target``, first written ``here``, may lie where ``source`` lay."""
    if target is source or target.axes != source.axes or here.axis not in target.axes:
        return False
    along = target.axes.index(here.axis)
    whole = source.tensor.shape[along] == here.axis.extent
    born_here = touches[0].stream == here.stream
    comparable = None not in map(larger, target.tensor.shape, source.tensor.shape)
    return target.tensor.dtype == source.tensor.dtype and touches[-1] == here and (whole or born_here) and comparable


def _merge(phase: Phase, target: Buffer, source: Buffer) -> Phase:
    """Put ``target``'s values into ``source``, which takes the larger shape of the two."""
    shape = tuple(size for size in map(larger, target.tensor.shape, source.tensor.shape) if size is not None)
    merged = Buffer(Tensor(source.tensor.name, shape, source.tensor.dtype), source.axes)
    old = {target.tensor, source.tensor}

    def rename(node: Expr) -> Expr:
        if isinstance(node, Load) and node.tensor in old:
            return load(merged.tensor, *node.indices)
        return node

    def swap(buffer: Buffer) -> Buffer:
        return merged if buffer.tensor in old else buffer

    body = tuple(rewrite(statement, lambda e: transform(e, rename), swap) for statement in phase.body)
    buffers = tuple(dict.fromkeys(swap(b) for b in phase.buffers))
    return replace(phase, buffers=buffers, body=body)


def rewrite(statement: Statement, value: Callable[[Expr], Expr], target: Callable[[Buffer], Buffer]) -> Statement:
    """A statement with other expressions and targets."""
    if isinstance(statement, Stream):
        return replace(statement, body=tuple(rewrite(s, value, target) for s in statement.body))
    if isinstance(statement, Store):
        return replace(statement, value=value(statement.value))
    if isinstance(statement, Fill):
        return replace(statement, target=target(statement.target))
    if isinstance(statement, Contract):
        left, right = value(statement.left), value(statement.right)
        return replace(statement, target=target(statement.target), left=left, right=right)
    return replace(statement, target=target(statement.target), value=value(statement.value))


def _flatten(
    body: Sequence[Statement], stream: int = 0, axis: Axis | None = None
) -> Iterator[tuple[Statement, int, Axis | None]]:
    """Statements in program order with the stream they are in; streams are numbered, 0 is the block itself."""
    for number, statement in enumerate(body, 1):
        if isinstance(statement, Stream):
            yield from _flatten(statement.body, number, statement.axis)
        else:
            yield statement, stream, axis


def _touched(statement: Statement) -> set[Tensor]:
    """Tensors a statement reads or writes, memory included."""
    touched: set[Tensor] = set()
    if not isinstance(statement, Store | Stream):
        touched.add(statement.target.tensor)
    return touched | {node.tensor for value in operands(statement) for node in loads(value)}
