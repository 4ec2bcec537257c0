"""Matrices in flat arrays, as code that is being written sees them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.values.builder import Builder
from redfuser.expr import Expr, index, op

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr


@dataclass(frozen=True)
class Matrix:
    """Rows of elements.

    Args:
        array: flat.
        start: where the first element lies.
        pitch: elements from one row to the next.
    """

    array: Array
    start: Expr
    pitch: int

    def at(self, builder: Builder, row: Expr, column: Expr, lanes: int = 1) -> PrimExpr:
        """One element, or a vector of elements of a row."""
        from tvm.tirx import BufferLoad

        return BufferLoad(self.array, [self.place(builder, row, column, lanes)])

    def place(self, builder: Builder, row: Expr, column: Expr, lanes: int = 1) -> PrimExpr:
        """Where they lie."""
        from tvm.tirx import Ramp

        first = builder.index(self.offset(row, column))
        return Ramp(first, 1, lanes) if lanes > 1 else first

    def offset(self, row: Expr, column: Expr) -> Expr:
        """Where one element lies."""
        return op("add", op("add", self.start, op("mul", row, index(self.pitch))), column)


def cuts(builder: Builder, name: str, total: int, size: int, count: Expr | None = None) -> Iterator[tuple[Expr, int]]:
    """Parts of ``range(total)`` in a loop, and what is left after it: (first, how many), the latter a constant.

    Args:
        size: of a part; a power of two where there is a count.
        count: how many there are, up to ``total``, where it is known on the call only: what is left after whole parts
            is a half of one, a quarter, …, as its number says in binary.
    """
    if count is not None:
        yield from _binary_cuts(builder, name, total, size, count)
        return
    full, rest = divmod(total, size)
    if full:
        with builder.loop(name, full) as number:
            yield op("mul", number, index(size)), size
    if rest:
        yield index(full * size), rest


def _binary_cuts(builder: Builder, name: str, total: int, size: int, count: Expr) -> Iterator[tuple[Expr, int]]:
    if total >= size:
        whole = builder.index(op("floordiv", count, index(size)))
        with builder.loop(name, total // size, "serial", whole) as number:
            yield op("mul", number, index(size)), size
    while size > 1:
        done = op("mul", op("floordiv", count, index(size)), index(size))
        size //= 2
        if total >= size:
            with builder.when(builder.index(op("sub", count, done)) >= builder.number(size)):
                yield done, size
