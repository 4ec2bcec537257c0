"""Row values between two ways to share out rows among threads: that of elements folded, and that of a product's result.

TileLang lays out what one loop touches alike, the result of a fold by rows as its summands lie, and a product's result
as tensor cores have it. Rows that are folded from something else than products, as a norm's, and then meet a product,
would have to lie in both ways; they pass through shared memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from redfuser.codegen.gpu.emission.precision import exact_dtype, strip_casts
from redfuser.expr import Axis, Expr, Load, Tensor, loads, substitute
from redfuser.extents import most
from redfuser.options import Fp32
from redfuser.tile.ir import Buffer, Contract, Map, Phase, Reduce, Statement, Store, Stream
from redfuser.tile.strategies.reuse import rewrite
from redfuser.tile.walk import statements


def is_row(buffer: Buffer) -> bool:
    """Whether a buffer has one number for each row: at most one wide axis."""
    return sum(most(points) > 1 for points in buffer.tensor.shape) <= 1


def writes(buffer: Buffer, body: Iterable[Statement]) -> list[Statement]:
    """The statements that write a buffer."""
    return [s for s in body if not isinstance(s, Store | Stream) and s.target.tensor == buffer.tensor]


def is_serial(statement: Reduce, streamed: Collection[Axis]) -> bool:
    """Whether summands are folded one after another: a matrix of results, from more than is held at once."""
    wide = [points for points in statement.target.tensor.shape if most(points) > 1]
    return len(wide) > 1 and statement.over not in streamed and statement.rank is None


def torn_rows(phase: Phase, shared: Collection[Tensor], fp32: Fp32) -> set[Tensor]:
    """Rows folded from something else than products that meet a product's layout.

    Args:
        phase: prepared.
        shared: its buffers that lie in shared memory.
        fp32: how products of float32 are computed.
    """
    return {tensor for meeting in _meetings(phase, shared, fp32) for tensor in meeting.rows}


def copy_torn_rows(phase: Phase, shared: Collection[Tensor], fp32: Fp32) -> Phase:
    """Let those that are folded be copied where they meet a product; what maps alone write needs no copy."""
    body = list(statements(phase.body))
    folded = {b.tensor: b for b in phase.buffers if not all(isinstance(s, Map) for s in writes(b, body))}
    meetings: dict[Statement, dict[Buffer, Buffer]] = {
        meeting.statement: {folded[row]: _copy(folded[row]) for row in meeting.rows if row in folded}
        for meeting in _meetings(phase, shared, fp32)
    }
    copies = tuple(dict.fromkeys(copy for own in meetings.values() for copy in own.values()))
    return replace(phase, buffers=(*phase.buffers, *copies), body=tuple(_copied(phase.body, meetings)))


def _copied(body: Sequence[Statement], meetings: Mapping[Statement, Mapping[Buffer, Buffer]]) -> Iterator[Statement]:
    for statement in body:
        if isinstance(statement, Stream):
            yield replace(statement, body=tuple(_copied(statement.body, meetings)))
        else:
            copies = meetings.get(statement, {})
            values = {buffer.value: copy.value for buffer, copy in copies.items()}
            yield from (Map(copy, buffer.value) for buffer, copy in copies.items())
            yield _reading(statement, values)


def _reading(statement: Statement, values: Mapping[Expr, Expr]) -> Statement:
    return rewrite(statement, lambda value: substitute(value, values), lambda target: target) if values else statement


def _copy(buffer: Buffer) -> Buffer:
    return replace(buffer, tensor=replace(buffer.tensor, name=f"{buffer.tensor.name}.shared"))


@dataclass(frozen=True)
class _Meeting:
    """A statement in which folded rows meet something that lies as a product's result does."""

    statement: Map | Store | Reduce
    rows: tuple[Tensor, ...]


def _meetings(phase: Phase, shared: Collection[Tensor], fp32: Fp32) -> Iterator[_Meeting]:
    body = list(statements(phase.body))
    kept = {buffer.tensor for buffer in phase.buffers if buffer.tensor not in shared}
    groups = _Groups(kept, body)
    laid_out = groups.of_products(body, fp32)
    folded = {
        s.target.tensor
        for s in body
        if isinstance(s, Reduce) and s.target.tensor in laid_out and is_row(s.target) and _by_rows(s, body)
        if not groups.joined(_read(s.value)) & laid_out
    }
    for statement in body:  # What follows from them alone lies as they do.
        if isinstance(statement, Map) and is_row(statement.target):
            read = _read(statement.value) & kept
            folded |= {statement.target.tensor} & kept if read and read <= folded else set()
    for statement in body:
        if isinstance(statement, Map | Store | Reduce):
            rows, others = folded & _read(statement.value), _touched(statement) & laid_out - folded
            if rows and others:
                yield _Meeting(statement, tuple(sorted(rows, key=lambda tensor: tensor.name)))


def _by_rows(statement: Reduce, body: Sequence[Statement]) -> bool:
    """Whether TileLang's reduction folds a tile: the result lies as the summands do."""
    return statement.rank is None and not is_serial(statement, [s.axis for s in body if isinstance(s, Stream)])


def _read(value: Expr) -> set[Tensor]:
    return {node.tensor for node in loads(value)}


def _touched(statement: Map | Store | Reduce) -> set[Tensor]:
    """What the loop over a statement's elements touches."""
    return _read(statement.value) | ({statement.target.tensor} if isinstance(statement, Map) else set())


def _in_registers(statement: Contract) -> Iterator[Tensor]:
    """Operands that may stay in registers: of half precision, as they are kept."""
    if _narrow(statement):
        operands = map(strip_casts, (statement.left, statement.right))
        yield from (bare.tensor for bare in operands if isinstance(bare, Load))


def _narrow(statement: Contract) -> bool:
    """Whether an operand is narrower than float32: tensor cores multiply it as it is."""
    return any(exact_dtype(operand, {}) != "float32" for operand in (statement.left, statement.right))


class _Groups:
    """Buffers in registers that lie alike, for one loop touches them."""

    def __init__(self, kept: Collection[Tensor], body: Sequence[Statement]) -> None:
        self.groups = [{tensor} for tensor in kept]
        for statement in body:
            if isinstance(statement, Map | Store):
                self._join(_touched(statement))
            elif isinstance(statement, Reduce):
                own = set() if _by_rows(statement, body) else {statement.target.tensor}
                self._join(_read(statement.value) | own)

    def _join(self, tensors: Collection[Tensor]) -> None:
        met = [group for group in self.groups if group & set(tensors)]
        if len(met) > 1:
            self.groups = [group for group in self.groups if group not in met] + [set().union(*met)]

    def joined(self, tensors: Collection[Tensor]) -> set[Tensor]:
        """All that lie as some of these do."""
        return set().union(*(group for group in self.groups if group & set(tensors)))

    def of_products(self, body: Sequence[Statement], fp32: Fp32) -> set[Tensor]:
        """What lies as a product has it: results, operands in registers, and what is folded from these."""
        products = [s for s in body if isinstance(s, Contract) and (fp32 != "ieee" or _narrow(s))]
        found = self.joined({s.target.tensor for s in products})
        found |= self.joined({t for s in products for t in _in_registers(s)})
        folds = [s for s in body if isinstance(s, Reduce) and _by_rows(s, body)]
        while more := self.joined({s.target.tensor for s in folds if self.joined(_read(s.value)) & found}) - found:
            found |= more
        return found
