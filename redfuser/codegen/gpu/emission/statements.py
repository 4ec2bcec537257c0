"""The statements of a phase as lines of a TileLang kernel."""

from __future__ import annotations

from collections.abc import Sequence

from redfuser.cascade.model import IDENTITIES
from redfuser.codegen.gpu.emission.block import Block
from redfuser.codegen.gpu.emission.expressions import constant
from redfuser.codegen.gpu.emission.geometry import Span, aligned
from redfuser.codegen.gpu.emission.operands import copy_operand
from redfuser.codegen.gpu.emission.overlap import overwritten_early
from redfuser.codegen.gpu.emission.padding import Value, same, wanted
from redfuser.codegen.gpu.emission.products import write_contract
from redfuser.codegen.gpu.emission.reductions import write_reduce
from redfuser.codegen.gpu.emission.script import Lines
from redfuser.codegen.refusal import Refused
from redfuser.expr import Expr, Op, axes_of, loads, number
from redfuser.expr.binding import dims_in
from redfuser.extents import divide, most
from redfuser.tile.coverage import distance
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Reduce, Statement, Store, Stream
from redfuser.tile.walk import operands


def write_body(block: Block, body: Sequence[Statement]) -> None:
    """Write statements in order.

    Raises:
        Refused: a statement can't be expressed.
    """
    starters = _starters(body)
    for position, statement in enumerate(body):
        later = body[position + 1 :]
        clear = position in starters.values()
        if isinstance(statement, Stream):
            _stream(block, statement)
        elif isinstance(statement, Store):
            _store(block, statement)
        elif isinstance(statement, Fill):
            if position not in starters:
                _fill(block, statement)
        elif isinstance(statement, Map):
            if not _rounds_an_operand(block, statement, later) and not copy_operand(block, statement):
                _map(block, statement, later)
        elif isinstance(statement, Reduce):
            write_reduce(block, statement, clear)
        else:
            write_contract(block, statement, clear)


def _starters(body: Sequence[Statement]) -> dict[int, int]:
    """Fills with the 0 or the empty list that a product or a selection starts from, and where that is in the body.

    These begin afresh by themselves, if nothing else touches their target in between.
    """
    found = {}
    for position, statement in enumerate(body):
        if isinstance(statement, Fill):
            users = (n for n in range(position + 1, len(body)) if _touches(body[n], statement.target))
            user = next(users, None)
            if user is not None and _starts_from(body[user], statement):
                found[position] = user
    return found


def _starts_from(statement: Statement, fill: Fill) -> bool:
    if not isinstance(statement, Contract | Reduce) or statement.target != fill.target:
        return False
    if isinstance(statement, Contract):
        return fill.value == 0
    return statement.rank is not None and fill.value == IDENTITIES[statement.combiner]


def _touches(statement: Statement, target: Buffer) -> bool:
    if isinstance(statement, Stream):
        return any(_touches(inner, target) for inner in statement.body)
    return _reads(statement, target) or (not isinstance(statement, Store) and statement.target == target)


def _fill(block: Block, statement: Fill) -> None:
    kept = block.stored(statement.target)
    value = number(statement.value, kept.dtype).value
    block.lines.add(f"T.fill({kept.name}, {constant(value, kept.dtype)})")
    block.padding.forget(statement.target.tensor)
    block.padding.known |= {(statement.target.tensor, axis): value for axis in kept.axes}


def _map(block: Block, statement: Map, later: Sequence[Statement]) -> None:
    """Outside its axes the target gets what the next fold over it needs."""
    target, value = statement.target, statement.value
    kept = block.stored(target)
    spans = block.geometry.wide(target.axes)
    needs: dict[Span, Value] = {}
    for span in spans:
        need = wanted(target, span.axis, later) if span.ragged else None
        if need is not None and not same(block.padding.value(value, span.axis), need):
            needs[span] = need
    if len(needs) > 1:
        raise Refused("padding", "two axes of one value have tails that must not count", statement)
    text = block.inside(list(needs), value, next(iter(needs.values()), 0), kept.dtype)
    exponential = block.padding.exponential(value)
    block.parallel(spans, f"{block.element(target)} = {text}")
    block.padding.learn(statement, [span.axis for span in spans])
    block.padding.known |= {(target.tensor, span.axis): need for span, need in needs.items()}
    block.probabilities.discard(target.tensor)
    if exponential:
        block.probabilities.add(target.tensor)


def _rounds_an_operand(block: Block, statement: Map, later: Sequence[Statement]) -> bool:
    """``b = float32(float16(b))`` for a matrix product alone, whose operand is rounded so anyway."""
    value, target = statement.value, statement.target
    if not (isinstance(value, Op) and value.name == "cast" and isinstance(value.args[0], Op)):
        return False
    inner = value.args[0]
    if inner.name != "cast" or inner.args[0] != target.value:
        return False
    readers = [following for following in later if _reads(following, target)]
    if len(readers) != 1 or not isinstance(readers[0], Contract):
        return False
    block.rounded[target.tensor] = inner.dtype
    return True


def _store(block: Block, statement: Store) -> None:
    spans = block.geometry.wide(statement.axes)
    value = block.text(statement.value, statement.tensor.dtype)
    target = f"{block.memory[statement.tensor]}[{block.indices(statement.indices)}]"
    block.parallel(spans, f"{target} = {value}", block.guard(spans))


def _stream(block: Block, stream: Stream) -> None:
    """A pipelined loop. Tiles are whole, but for the one at the end of the axis."""
    axis, tile = stream.axis, stream.tile
    if not all(aligned(bound, tile, axis.extent) for bound in (stream.start, stream.stop)):
        raise Refused("stream-bounds", "a stream must begin and end with whole tiles, or where its axis ends", stream)
    start = _bound(block, stream.start, f"{axis.name}_first")
    count = _whole_count(stream) or f"T.ceildiv({_bound(block, stream.stop, f'{axis.name}_last')} - {start}, {tile})"
    step = block.names.new(f"{axis.name}_step")
    stages = block.options.get("stages", 2)
    outer = any(isinstance(inner, Stream) for inner in stream.body)
    origin = f"{step} * {tile}" if start == "0" else f"{start} + {step} * {tile}"
    changed = {s.target.tensor for s in stream.body if not isinstance(s, Store | Stream)}
    for tensor in changed:
        block.padding.forget(tensor)
    around, block.lines = block.lines, Lines(block.lines.depth + 1)
    exact = divide(axis.extent, tile) is not None and not _overruns(stream)
    stop = block.geometry.sizes.text(axis.extent)
    block.geometry.streamed[axis] = block.geometry.tiled(axis, tile, origin, stop, exact)
    write_body(block, stream.body)
    del block.geometry.streamed[axis]
    body, block.lines = block.lines.lines, around
    ahead = stages and not outer and not overwritten_early(body, block.memory.values(), block.shared)
    loop = f"T.Pipelined({count}, num_stages={stages})" if ahead else f"T.serial({count})"
    block.lines.add(f"for {step} in {loop}:")
    block.lines.lines += body
    for tensor in changed:
        block.padding.forget(tensor)


def _bound(block: Block, bound: Expr, name: str) -> str:
    """Text of a stream's bound; one that is read from memory, or worked out from open sizes, gets a name.

    The latter as a variable: TileLang would repeat the formula in every index, and spill what it takes.
    """
    text = block.bounds.text(bound)
    worked_out = bool(axes_of(bound) and dims_in(bound))
    if not loads(bound) and not worked_out:
        return text
    unique = block.names.new(name)
    if worked_out:
        block.lines.add(f'{unique} = T.alloc_var("int32")')
    block.lines.add(f"{unique} = {text}")
    return unique


def _whole_count(stream: Stream) -> str:
    """Tiles of a stream where their number is known: from a start to a fixed distance, or to the axis' end.

    A last segment that is shorter runs as often as the others, beyond the end of the axis: that loop has a fixed
    number of turns is worth more to a pipeline.
    """
    length = distance(stream)
    return str(-(-length // stream.tile)) if length is not None else ""


def _overruns(stream: Stream) -> bool:
    """Whether some segment runs beyond the end of the axis."""
    length = distance(stream)
    extent = stream.axis.extent
    return length is not None and length < most(extent) and divide(extent, length) is None


def _reads(statement: Statement, target: Buffer) -> bool:
    if isinstance(statement, Stream):
        return any(_reads(inner, target) for inner in statement.body)
    return any(node.tensor == target.tensor for value in operands(statement) for node in loads(value))
