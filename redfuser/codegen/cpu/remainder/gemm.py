"""Matrix products: a register tile walks down a panel of columns that is packed to be read in order.

The last tile of each direction is moved back so that it ends with the matrix: some elements are computed twice, and
there is no other code for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.builder import matched
from redfuser.codegen.cpu.region import Region, whole
from redfuser.codegen.cpu.remainder.contraction import Contraction
from redfuser.codegen.cpu.remainder.kernel import Kernel, point
from redfuser.codegen.cpu.remainder.packing import Packing
from redfuser.codegen.cpu.remainder.tiling import Tiling
from redfuser.expr import Axis, Expr, Op, Tensor, axis, cast, index, load, op, walk
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

#: An epilogue of more operators than this is written once, in a loop over the register tile.
SHORT = 6


def write_product(kernel: Kernel, work: Contraction, tiling: Tiling, packing: Packing | None) -> None:
    """Write the loops of a contraction.

    Args:
        packing: how the right factor lies in the parameter that holds it; None if it is read where it is.
    """
    _Product(kernel, work, tiling, packing).write()


class _Product:
    def __init__(self, kernel: Kernel, work: Contraction, tiling: Tiling, packing: Packing | None) -> None:
        self.kernel = kernel
        self.builder = kernel.builder
        self.work = work
        self.tiling = tiling
        self.packing = packing
        self.places: dict[Axis, Expr] = {}

    def write(self) -> None:
        work, tiling = self.work, self.tiling
        extents = (*(a.extent for a in work.outer), tiling.panels(work.column.extent), tiling.blocks)
        with self.builder.loop("task", prod(extents), "parallel") as task:
            *outer, panel, block = _digits(task, extents)
            self.places = dict(zip(work.outer, outer, strict=True))
            self.panel = panel
            self.places[work.column] = self._start("column", panel, tiling.width, work.column)
            per_block = -(-tiling.tiles(work.row.extent) // tiling.blocks)
            with self.builder.loop("tile", per_block) as tile:
                number = op("add", op("mul", block, index(per_block)), tile)
                self.places[work.row] = self._start("row", number, tiling.rows, work.row)
                self._tile()

    def _start(self, name: str, number: Expr, size: int, along: Axis) -> Expr:
        """First point of a tile, moved back where the tile would leave the axis."""
        last = along.extent - size
        return self.builder.coordinate(name, op("min", op("mul", number, index(size)), index(last)), last + 1)

    def _tile(self) -> None:
        sums = self.kernel.allocate("sums", self.tiling.rows * self.tiling.width, self.work.total.dtype)
        with self._cells() as (row, vector):
            self._put(sums, row, vector, self._zero())
        with ExitStack() as stack:
            deep = {a: stack.enter_context(self.builder.loop("k", a.extent)) for a in self.work.reduced}
            self._multiply(sums, deep)
        if sum(isinstance(node, Op) for node in walk(self.work.epilogue)) <= SHORT:
            with self._cells() as (row, vector):
                self._finish(self._get(sums, row, vector), row, vector)
            return
        # A loop that isn't unrolled would keep the sums out of registers: it reads a copy.
        copy = self.kernel.allocate("copy", self.tiling.rows * self.tiling.width, self.work.total.dtype)
        with self._cells() as (row, vector):
            self._put(copy, row, vector, self._get(sums, row, vector))
        with self._cells("serial") as (row, vector):
            self._finish(self._get(copy, row, vector), row, vector)

    def _multiply(self, sums: Tensor, deep: Mapping[Axis, Expr]) -> None:
        """One summand for every element of the register tile."""
        places = point({**self.places, **deep})
        with self.builder.loop("r", self.tiling.rows, "unroll") as row:
            left = self.kernel.translator.value(self.work.left, places.narrow(self.work.row, row, 1))
            left = self.builder.bind("left", matched(left, self.tiling.lanes))
            with self.builder.loop("v", self.tiling.vectors, "unroll") as vector:
                right = self._right(places, vector)
                self._put(sums, row, vector, self._get(sums, row, vector) + left * right)

    def _right(self, places: Region, vector: Expr) -> PrimExpr:
        """A vector of the right factor."""
        first = op("mul", vector, index(self.tiling.lanes))
        if self.packing is None:
            region = places.along(self.work.column, first, self.tiling.lanes)
            return matched(self.kernel.translator.value(self.work.right, region), self.tiling.lanes)
        column = axis("column", self.tiling.width)
        where = op("add", self.packing.address(places.points(), self.panel), column)
        region = Region({**places.spans, column: whole(column)}).along(column, first, self.tiling.lanes)
        value = cast(load(self.packing.tensor, where), self.work.right.dtype)
        return self.kernel.translator.value(value, region)

    def _finish(self, total: PrimExpr, row: Expr, vector: Expr) -> None:
        """Store one vector of results."""
        work, lanes = self.work, self.tiling.lanes
        region = point(self.places).narrow(work.row, row, 1).along(work.column, op("mul", vector, index(lanes)), lanes)
        value = self.kernel.translator.value(work.epilogue, region, {work.total: self.builder.bind("total", total)})
        self.kernel.translator.access.put_in_memory(work.target, [work.address], region, value)

    @contextmanager
    def _cells(self, kind: str = "unroll") -> Iterator[tuple[Expr, Expr]]:
        """Every vector of the register tile."""
        with (
            self.builder.loop("r", self.tiling.rows, kind) as r,
            self.builder.loop("v", self.tiling.vectors, kind) as v,
        ):
            yield r, v

    def _zero(self) -> PrimExpr:
        from tvm.tirx import const

        return matched(const(0.0, self.work.total.dtype), self.tiling.lanes)

    def _place(self, row: Expr, vector: Expr) -> PrimExpr:
        from tvm.tirx import Ramp

        where = op("add", op("mul", row, index(self.tiling.width)), op("mul", vector, index(self.tiling.lanes)))
        start = self.builder.index(where)
        return Ramp(start, 1, self.tiling.lanes) if self.tiling.lanes > 1 else start

    def _get(self, sums: Tensor, row: Expr, vector: Expr) -> PrimExpr:
        from tvm.tirx import BufferLoad

        return BufferLoad(self.kernel.arrays[sums], [self._place(row, vector)])

    def _put(self, sums: Tensor, row: Expr, vector: Expr, value: PrimExpr) -> None:
        self.builder.store(self.kernel.arrays[sums], self._place(row, vector), value)


def _digits(number: Expr, extents: Sequence[int]) -> list[Expr]:
    """A number in mixed radix, most significant digit first."""
    found = []
    for extent in reversed(extents):
        found.append(linear(op("floormod", number, index(extent))).expr())
        number = linear(op("floordiv", number, index(extent))).expr()
    return found[::-1]
