"""Going through the statements of tile programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from redfuser.expr import Expr, Tensor
from redfuser.tile.ir import Contract, Fill, Map, Reduce, Statement, Store, Stream

#: A statement that isn't a stream of others.
Step = Fill | Map | Reduce | Contract | Store


def statements(body: Sequence[Statement]) -> Iterator[Statement]:
    """Every statement in program order, streams before their bodies."""
    for statement in body:
        yield statement
        if isinstance(statement, Stream):
            yield from statements(statement.body)


def steps(body: Sequence[Statement]) -> Iterator[Step]:
    """The same without the streams themselves."""
    return (statement for statement in statements(body) if not isinstance(statement, Stream))


def operands(statement: Statement) -> tuple[Expr, ...]:
    """The values that a statement computes with: not positions in memory, nor bounds of streams."""
    found = (getattr(statement, name, None) for name in ("value", "left", "right"))
    return tuple(value for value in found if isinstance(value, Expr))


def written(step: Step) -> Tensor:
    """The buffer or tensor that a statement writes."""
    return step.tensor if isinstance(step, Store) else step.target.tensor
