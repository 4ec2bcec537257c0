"""Factors of products that go into an operand: scores times a power of two, most often the root of a head's size.

After the product the factor is an instruction for every vector of every tile of the stream. In an operand that is
brought on chip before the stream it is next to nothing. A power of two below 1 changes no digit of either, except of
numbers so small that they have fewer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import frexp

from redfuser.expr import Const, Op, Tensor, loads, op, substitute, walk
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Statement, Stream
from redfuser.tile.walk import operands, steps, written


@dataclass(frozen=True)
class _Move:
    """A factor on its way.

    Args:
        scaled: the map that multiplies the product by it.
        product: the product and its factor, as they stand there.
        staged: the map that brings the operand on chip.
        factor: the number.
    """

    scaled: Map
    product: Op
    staged: Map
    factor: Const


def move_factors(phase: Phase) -> Phase:
    """The phase with powers of two in staged operands instead of behind the products."""
    for move in _moves(phase):
        body = _replaced(phase.body, move)
        phase = replace(phase, body=body)
    return phase


def _moves(phase: Phase) -> Iterator[_Move]:
    staged = {s.target.tensor: s for s in phase.body if isinstance(s, Map)}
    for stream in (s for s in phase.body if isinstance(s, Stream)):
        for fill, contract, scaled in zip(stream.body, stream.body[1:], stream.body[2:], strict=False):
            if not (isinstance(fill, Fill) and isinstance(contract, Contract) and isinstance(scaled, Map)):
                continue
            product = _scaled(scaled, contract.target)
            if product is None or fill != Fill(contract.target, 0) or scaled.target != contract.target:
                continue
            for side in (contract.left, contract.right):
                source = next((s for t, s in staged.items() if side == s.target.value), None)
                if source is not None and _only_use(phase, source.target.tensor):
                    factor = product.args[1] if isinstance(product.args[1], Const) else product.args[0]
                    assert isinstance(factor, Const)
                    yield _Move(scaled, product, source, factor)
                    break


def _scaled(scaled: Map, target: Buffer) -> Op | None:
    """The one place where a map reads its target: times a power of two that is at most 1."""
    found = [n for n in walk(scaled.value) if isinstance(n, Op) and target.value in n.args]
    if len(found) != 1 or found[0].name != "mul" or found[0].dtype != "float32":
        return None
    others = [a for a in found[0].args if a != target.value]
    if len(others) != 1 or not isinstance(others[0], Const) or scaled.value == target.value:
        return None
    factor = float(others[0].value)
    return found[0] if 0 < factor < 1 and frexp(factor)[0] == 0.5 else None


def _only_use(phase: Phase, tensor: Tensor) -> bool:
    """Whether a tensor is written once and read once."""
    read = [node for s in steps(phase.body) for value in operands(s) for node in loads(value) if node.tensor == tensor]
    return len(read) == 1 == sum(written(s) == tensor for s in steps(phase.body))


def _replaced(body: Sequence[Statement], move: _Move) -> tuple[Statement, ...]:
    return tuple(chain.from_iterable(_moved(statement, move) for statement in body))


def _moved(statement: Statement, move: _Move) -> Iterator[Statement]:
    if isinstance(statement, Stream):
        yield replace(statement, body=_replaced(statement.body, move))
    elif statement == move.staged:
        yield replace(move.staged, value=op("mul", move.staged.value, move.factor))
    elif statement == move.scaled:
        bare = move.scaled.target.value
        value = substitute(move.scaled.value, {move.product: bare})
        if value != bare:
            yield replace(move.scaled, value=value)
    else:
        yield statement
