"""Where each buffer is kept: in registers, or in shared memory where a matrix product or a loop reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from redfuser.codegen.gpu.emission.layouts import is_row, is_serial, torn_rows, writes
from redfuser.codegen.gpu.emission.precision import exact_dtype, strip_casts
from redfuser.codegen.gpu.emission.prepare import only_folds
from redfuser.expr import Axis, Expr, Load, Tensor, loads
from redfuser.extents import most
from redfuser.options import Fp32
from redfuser.tile.ir import Buffer, Contract, Map, Phase, Reduce, Statement, Store, Stream
from redfuser.tile.walk import statements

Scope = Literal["fragment", "shared"]


@dataclass(frozen=True)
class Plan:
    """What a buffer is to be: its scope and the type it is kept in."""

    scope: Scope
    dtype: str


@dataclass(frozen=True)
class Storage:
    """A declared buffer: its name in the script, scope and type, and the axes that are its dimensions."""

    name: str
    scope: Scope
    dtype: str
    axes: tuple[Axis, ...]


def plan_storage(phase: Phase, fp32: Fp32 = "tf32") -> dict[Tensor, Plan]:
    """A plan for every buffer of a phase.

    A buffer is kept in the narrowest type that all values written to it have. It lies in shared memory where it
    is only an operand of matrix products, where a stream visits it piece by piece, where it is a list, or where threads
    share it out in two ways.

    Args:
        fp32: how products of float32 are computed.
    """
    plans: dict[Tensor, Plan] = {}
    stored: dict[Tensor, str] = {}
    body = list(statements(phase.body))
    shared = in_shared(phase)
    shared |= torn_rows(phase, shared, fp32)
    for buffer in phase.buffers:
        dtype = _dtype(buffer, body, stored)
        stored[buffer.tensor] = dtype
        plans[buffer.tensor] = Plan("shared" if buffer.tensor in shared else "fragment", dtype)
    return plans


def in_shared(phase: Phase) -> set[Tensor]:
    """What lies in shared memory whatever the layouts of the rest."""
    body = list(statements(phase.body))
    shared = _visited_in_pieces(phase) | {b.tensor for b in phase.buffers if _operand_only(b, body)}
    shared |= {s.target.tensor for s in body if isinstance(s, Reduce) and s.rank is not None}
    shared |= _copied_ahead(phase, body)
    return shared | _between_layouts(phase, body, shared) | _beside_serial_folds(phase, body)


def _copied_ahead(phase: Phase, body: Sequence[Statement]) -> set[Tensor]:
    """Tiles of memory that a stream folds, where other streams of the kernel multiply: copies of all are pipelined."""
    if not any(isinstance(statement, Contract) for statement in body):
        return set()
    own = {buffer.tensor for buffer in phase.buffers}
    folds = [s for s in body if isinstance(s, Stream) and only_folds(s)]
    maps = [inner for stream in folds for inner in stream.body if isinstance(inner, Map)]
    return {m.target.tensor for m in maps if isinstance(m.value, Load) and m.value.tensor not in own}


def _between_layouts(phase: Phase, body: Sequence[Statement], shared: Collection[Tensor]) -> set[Tensor]:
    """Row values from which operands are computed: threads hold rows otherwise there than in a product's result."""
    computed = [s.value for s in body if isinstance(s, Map) and s.target.tensor in shared]
    for statement in body:
        if isinstance(statement, Contract):
            operands = (strip_casts(statement.left), strip_casts(statement.right))
            computed += [operand for operand in operands if not isinstance(operand, Load)]
    read = {node.tensor for value in computed for node in loads(value)}
    rows = [b for b in phase.buffers if b.tensor in read and is_row(b)]
    return {b.tensor for b in rows if all(isinstance(statement, Map) for statement in writes(b, body))}


def _beside_serial_folds(phase: Phase, body: Sequence[Statement]) -> set[Tensor]:
    """Row values that meet a matrix folded one summand after another.

    In registers they would decide how threads share out the matrix: whole rows to each thread that reduced one.
    """
    streamed = [statement.axis for statement in body if isinstance(statement, Stream)]
    matrices = {s.target.tensor for s in body if isinstance(s, Reduce) and is_serial(s, streamed)}
    values = [s.value for s in body if isinstance(s, Map | Store)]
    met = {node.tensor for value in values if matrices & _tensors(value) for node in loads(value)}
    rows = [b for b in phase.buffers if b.tensor in met and is_row(b)]
    return {b.tensor for b in rows if all(isinstance(statement, Map) for statement in writes(b, body))}


def _tensors(value: Expr) -> set[Tensor]:
    return {node.tensor for node in loads(value)}


def _dtype(buffer: Buffer, body: Iterable[Statement], stored: dict[Tensor, str]) -> str:
    """The narrowest type of everything written, where only maps write and none reads the buffer itself."""
    found = set()
    for statement in writes(buffer, body):
        if not isinstance(statement, Map) or buffer.tensor in {node.tensor for node in loads(statement.value)}:
            return buffer.tensor.dtype
        found.add(exact_dtype(statement.value, stored))
    return found.pop() if len(found) == 1 else buffer.tensor.dtype


def _operand_only(buffer: Buffer, body: Iterable[Statement]) -> bool:
    """Whether maps write a buffer and matrix products alone read it."""
    body = list(body)
    if not all(isinstance(statement, Map) for statement in writes(buffer, body)):
        return False
    used = False
    for statement in body:
        if isinstance(statement, Contract):
            used |= buffer.tensor in {n.tensor for e in (statement.left, statement.right) for n in loads(e)}
            for operand in (statement.left, statement.right):
                bare = strip_casts(operand)
                if buffer.tensor in {n.tensor for n in loads(operand)} and not isinstance(bare, Load):
                    return False
        else:
            value = getattr(statement, "value", None)
            if isinstance(value, Expr) and buffer.tensor in {node.tensor for node in loads(value)}:
                return False
    return used


def _visited_in_pieces(phase: Phase) -> set[Tensor]:
    """Buffers that cover more of a streamed axis than the stream's tile, or that a serial fold reads along its axis."""
    body = list(statements(phase.body))
    streams = [statement for statement in body if isinstance(statement, Stream)]
    folded = {
        node.tensor
        for statement in body
        if isinstance(statement, Reduce) and is_serial(statement, [stream.axis for stream in streams])
        for node in loads(statement.value)
        if statement.over in node.indices
    }
    return folded | {
        buffer.tensor
        for buffer in phase.buffers
        for stream in streams
        for axis, points in zip(buffer.axes, buffer.tensor.shape, strict=True)
        if axis == stream.axis and most(points) > stream.tile
    }
