"""Factors of products that go into an operand: scores times a power of two, most often 1/√d of heads of d elements.

After the product the factor is an instruction for every vector of every tile of the stream. In an operand that is
brought on chip before the stream it is next to nothing. A power of two below 1 changes no digit of either, except of
numbers so small that they have fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import frexp

from redfuser.expr import Const, Expr, Op, Tensor, loads, op, substitute, walk
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Statement, Stream
from redfuser.tile.walk import operands, steps, written

#: Of the product, its factor and the operand.
DTYPE = "float32"


@dataclass(frozen=True)
class _Move:
    """A factor on its way.

    Args:
        scaled: the map that multiplies the product by it.
        product: the product and its factor, as they stand there.
        factor: the number.
        staged: the map that brings the operand on chip.
    """

    scaled: Map
    product: Op
    factor: Const
    staged: Map


def move_factors(phase: Phase) -> Phase:
    """The phase with powers of two in staged operands instead of behind the products."""
    for move in list(_moves(phase)):
        phase = replace(phase, body=_moved(phase.body, move))
    return phase


def _moves(phase: Phase) -> Iterator[_Move]:
    for stream in (s for s in phase.body if isinstance(s, Stream)):
        for fill, contract, scaled in zip(stream.body, stream.body[1:], stream.body[2:], strict=False):
            if not isinstance(contract, Contract) or not isinstance(scaled, Map):
                continue
            target = contract.target
            found = _scaled(scaled.value, target) if fill == Fill(target, 0) and scaled.target == target else None
            staged = _staged(phase, contract)
            if found is not None and staged is not None:
                yield _Move(scaled, *found, staged)


def _scaled(value: Expr, target: Buffer) -> tuple[Op, Const] | None:
    """The one place where a value reads its target, times a power of two below 1; and the factor."""
    found = [n for n in walk(value) if isinstance(n, Op) and target.value in n.args]
    if len(found) != 1 or found[0].name != "mul" or found[0].dtype != DTYPE:
        return None
    factor = next((a for a in found[0].args if isinstance(a, Const)), None)
    power = factor is not None and 0 < factor.value < 1 and frexp(factor.value)[0] == 0.5
    return (found[0], factor) if factor is not None and power else None


def _staged(phase: Phase, contract: Contract) -> Map | None:
    """What brings an operand on chip before the stream, for this contraction alone."""
    maps = (s for s in phase.body if isinstance(s, Map) and s.value.dtype == s.target.tensor.dtype == DTYPE)
    sides = contract.left, contract.right
    return next((s for s in maps if s.target.value in sides and _only_use(phase, s.target.tensor)), None)


def _only_use(phase: Phase, tensor: Tensor) -> bool:
    """Whether a tensor is written once and read once."""
    read = [node for s in steps(phase.body) for value in operands(s) for node in loads(value) if node.tensor == tensor]
    return len(read) == 1 == sum(written(s) == tensor for s in steps(phase.body))


def _moved(body: Sequence[Statement], move: _Move) -> tuple[Statement, ...]:
    return tuple(chain.from_iterable(_rewritten(statement, move) for statement in body))


def _rewritten(statement: Statement, move: _Move) -> Iterator[Statement]:
    if isinstance(statement, Stream):
        yield replace(statement, body=_moved(statement.body, move))
    elif statement == move.staged:
        yield replace(move.staged, value=op("mul", move.staged.value, move.factor))
    elif statement == move.scaled:
        bare = move.scaled.target.value
        value = substitute(move.scaled.value, {move.product: bare})
        if value != bare:
            yield replace(move.scaled, value=value)
    else:
        yield statement
