"""Sums of a register tile, row by row in vectors of columns, and arrays of such."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.remainder.kernel import Kernel
from redfuser.codegen.cpu.remainder.products.tiling import Tiling
from redfuser.codegen.cpu.values.builder import matched
from redfuser.expr import Expr, Tensor, index, op

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr


class Sums:
    """Writes what is kept of the sums of register tiles.

    Args:
        kernel: being written.
        tiling: how wide a row is.
        dtype: of a sum.
    """

    def __init__(self, kernel: Kernel, tiling: Tiling, dtype: str) -> None:
        self.kernel = kernel
        self.tiling = tiling
        self.dtype = dtype

    def array(self, name: str, rows: int) -> Tensor:
        """An array of some rows."""
        return self.kernel.allocate(name, rows * self.tiling.width, self.dtype)

    def tile(self, name: str = "sums") -> list[Tensor]:
        """The rows of a register tile, each an array of its own: LLVM keeps such in registers; all zero."""
        from tvm.tirx import const

        rows = [self.array(name, 1) for _ in range(self.tiling.rows)]
        for row, vector in self.cells(rows):
            self.put(row, index(0), vector, matched(const(0.0, self.dtype), self.tiling.lanes))
        return rows

    def cells(self, rows: Sequence[Tensor]) -> Iterator[tuple[Tensor, Expr]]:
        """Every vector of some rows."""
        for row in rows:
            with self.kernel.builder.loop("v", self.tiling.vectors, "unroll") as vector:
                yield row, vector

    def move(self, array: Tensor, first: Expr, rows: Sequence[Tensor]) -> None:
        """Copy rows to an array of many, from the one numbered ``first``."""
        for place, each in enumerate(rows):
            for row, vector in self.cells([each]):
                self.put(array, op("add", first, index(place)), vector, self.get(row, index(0), vector))

    def add(self, array: Tensor, first: Expr, rows: Sequence[Tensor]) -> None:
        """Add what such an array holds to rows."""
        for place, each in enumerate(rows):
            for row, vector in self.cells([each]):
                more = self.get(array, op("add", first, index(place)), vector)
                self.put(row, index(0), vector, more + self.get(row, index(0), vector))

    def get(self, array: Tensor, row: Expr, vector: Expr) -> PrimExpr:
        """A vector of an array."""
        from tvm.tirx import BufferLoad

        return BufferLoad(self.kernel.arrays[array], [self._place(row, vector)])

    def put(self, array: Tensor, row: Expr, vector: Expr, value: PrimExpr) -> None:
        """Set a vector of an array."""
        self.kernel.builder.store(self.kernel.arrays[array], self._place(row, vector), value)

    def _place(self, row: Expr, vector: Expr) -> PrimExpr:
        from tvm.tirx import Ramp

        where = op("add", op("mul", row, index(self.tiling.width)), op("mul", vector, index(self.tiling.lanes)))
        start = self.kernel.builder.index(where)
        return Ramp(start, 1, self.tiling.lanes) if self.tiling.lanes > 1 else start
