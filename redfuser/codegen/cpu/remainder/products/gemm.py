"""Matrix products: a register tile walks down a panel of columns that is packed to be read in order.

The last tile of each direction is moved back so that it ends with the matrix: some elements are computed twice, and
there is no other code for the rest. Long sums are cut into parts whose share of a panel stays in the cache; each starts
from zero, so that errors don't grow with the length of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.remainder.kernel import Kernel, point
from redfuser.codegen.cpu.remainder.products.ahead import Progress, bring_panel
from redfuser.codegen.cpu.remainder.products.contraction import Contraction
from redfuser.codegen.cpu.remainder.products.heights import height_ranges
from redfuser.codegen.cpu.remainder.products.multipliers import multiplier_of
from redfuser.codegen.cpu.remainder.products.packing import Packing
from redfuser.codegen.cpu.remainder.products.tasks import digits, product_of
from redfuser.codegen.cpu.remainder.products.tiling import Tiling
from redfuser.codegen.cpu.values.builder import matched
from redfuser.expr import Axis, Expr, Op, Tensor, index, op, walk
from redfuser.extents import is_symbolic, most
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

#: An epilogue of more operators than this is written once, in a loop over the register tile.
SHORT = 2

#: Register tiles in a block of rows, where the number of rows is known on the call only.
SYMBOLIC_TILES = 8


def write_product(kernel: Kernel, work: Contraction, tiling: Tiling, packing: Packing | None) -> None:
    """Write the loops of a contraction.

    Args:
        packing: how the right factor lies in the tensor that holds it; None if it is read where it is.
    """
    _Product(kernel, work, tiling, packing).write()


class _Product:
    def __init__(self, kernel: Kernel, work: Contraction, tiling: Tiling, packing: Packing | None) -> None:
        self.kernel = kernel
        self.builder = kernel.builder
        self.work = work
        self.tiling = tiling
        self.packing = packing
        self.together = packing.together if packing is not None else 1
        self.multiplier = multiplier_of(kernel, work, tiling, packing)
        self.places: dict[Axis, Expr] = {}
        self.panel: Expr = index(0)
        self.part: Expr = index(0)
        self.tile: Expr = index(0)
        self.tiles = 1

    def write(self) -> None:
        if is_symbolic(self.work.row.extent):
            self._write_symbolic()
        else:
            self.tiles = self.tiling.tiles(self.work.row.extent)
            self._write_blocks(index(self.tiling.blocks), self.tiling.blocks)

    def _write_symbolic(self) -> None:
        """Blocks of some tiles, as many as there are rows for; few rows go through the tiles that waste the least."""
        wide = self.tiling
        for height, ranges in height_ranges(wide, self.work.row.extent).items():
            self.tiling = replace(wide, rows=height)
            self.tiles = min(SYMBOLIC_TILES, -(-ranges[-1][1] // height))
            with self.builder.when(self._is_within(ranges)):
                self._write_some()

    def _is_within(self, ranges: Sequence[tuple[int, int]]) -> PrimExpr:
        """Whether the number of rows is in one of these ranges."""
        from tvm.tirx import And, Or

        rows, number = self.builder.index(index(self.work.row.extent)), self.builder.number
        first, *others = [And(rows >= number(least), rows <= number(most)) for least, most in ranges]
        for other in others:
            first = Or(first, other)
        return first

    def _write_some(self) -> None:
        """The blocks of a number of rows that is known on the call only."""
        extent, height = self.work.row.extent, self.tiling.rows
        most_tiles = -(-most(extent) // height)
        needed = op("floordiv", index(extent + height - 1), index(height))
        needed = self.builder.coordinate("row_tiles", needed, most_tiles + 1)
        blocks = op("floordiv", op("add", needed, index(self.tiles - 1)), index(self.tiles))
        most_blocks = -(-most_tiles // self.tiles)
        blocks = self.builder.coordinate("row_blocks", blocks, most_blocks + 1)
        self._write_blocks(blocks, most_blocks, needed)

    def _write_blocks(self, blocks: Expr, most_blocks: int, needed: Expr | None = None) -> None:
        """The tasks: blocks of rows by panels of columns.

        Args:
            blocks: how many there are.
            most_blocks: how many there may be.
            needed: tiles of rows that all blocks together have, where it is known on the call only.
        """
        work, tiling, tiles = self.work, self.tiling, self.tiles
        panels = tiling.panels(work.column.extent)
        extents = [*(index(a.extent) for a in work.outer), blocks, index(panels)]
        tasks = prod([*(a.extent for a in work.outer), most_blocks, panels])
        known = None if needed is None else self.builder.index(product_of(extents))
        with self.builder.loop("task", tasks, "parallel", known) as task:
            *outer, block, self.panel = digits(task, extents)
            self.places = dict(zip(work.outer, outer, strict=True))
            self.places[work.column] = self._start("column", self.panel, tiling.width, work.column)
            self.copy = self._array("copy", tiling.rows) if self._is_long() else None
            self.partial = self._array("partial", tiles * tiling.rows) if tiling.parts > 1 else None
            first = op("mul", block, index(tiles))
            left = None if needed is None else self.builder.index(op("min", op("sub", needed, first), index(tiles)))
            with (
                self.builder.loop("part", tiling.parts) as self.part,
                self.builder.loop("tile", tiles, "serial", left) as self.tile,
            ):
                self.places[work.row] = self._start("row", op("add", first, self.tile), tiling.rows, work.row)
                self._write_tile()

    def _array(self, name: str, rows: int) -> Tensor:
        return self.kernel.allocate(name, rows * self.tiling.width, self.work.total.dtype)

    def _is_long(self) -> bool:
        """Whether the epilogue is worth a loop of its own."""
        return sum(isinstance(node, Op) for node in walk(self.work.epilogue)) > SHORT

    def _start(self, name: str, number: Expr, size: int, along: Axis) -> Expr:
        """First point of a tile, moved back where the tile would leave the axis."""
        last = along.extent - size
        return self.builder.coordinate(name, op("min", op("mul", number, index(size)), index(last)), most(last) + 1)

    def _write_tile(self) -> None:
        # One small array a row: LLVM keeps such in registers.
        sums = [self._array("sums", 1) for _ in range(self.tiling.rows)]
        for row, vector in self._cells(sums):
            self._put(row, index(0), vector, self._zero())
        with self._summands() as deep:
            if self.packing is not None:
                array = self.kernel.arrays[self.packing.tensor]
                now = Progress(deep, self.places, self.panel, self.part, self.tile, self.tiles)
                bring_panel(self.builder, array, self.packing, self.tiling, now)
            self._multiply(sums, deep)
        if self.partial is None:
            self._finish_all(sums)
            return
        with self.builder.when(self.builder.index(self.part) > self.builder.number(0)):
            self._add(self.partial, sums)
        last = self.builder.number(self.tiling.parts - 1)
        with self.builder.when(self.builder.index(self.part) < last):
            self._move(self.partial, sums)
        with self.builder.when(self.builder.index(self.part) >= last):
            self._finish_all(sums)

    @contextmanager
    def _summands(self) -> Iterator[dict[Axis, Expr]]:
        """The loops over what is summed up in this part."""
        if self.tiling.parts == 1 and self.together == 1:
            with ExitStack() as stack:
                yield {a: stack.enter_context(self.builder.loop("k", a.extent)) for a in self.work.reduced}
            return
        (axis,) = self.work.reduced
        steps = axis.extent // self.together
        size = -(-steps // self.tiling.parts)
        first = op("mul", self.part, index(size))
        count = None
        if self.tiling.parts > 1:
            left = self.builder.index(op("min", op("sub", index(steps), first), index(size)))
            count = self.builder.bind("count", left)
        with self.builder.loop("k", size, "serial", count) as k:
            yield {axis: linear(op("mul", op("add", first, k), index(self.together))).expr()}

    def _multiply(self, sums: Sequence[Tensor], deep: Mapping[Axis, Expr]) -> None:
        """One summand, or a pair of them, for every element of the register tile."""
        places = point({**self.places, **deep})
        for place, row in enumerate(sums):
            here = places.narrow(self.work.row, index(place), 1)
            left = self.builder.bind("left", matched(self.multiplier.left(here), self.tiling.lanes))
            with self.builder.loop("v", self.tiling.vectors, "unroll") as vector:
                right, total = self.multiplier.right(places, self.panel, vector), self._get(row, index(0), vector)
                self._put(row, index(0), vector, self.multiplier.add(total, left, right))

    def _finish_all(self, sums: Sequence[Tensor]) -> None:
        """Store the results of a tile."""
        if self.copy is None:
            for place, row in enumerate(sums):
                for _, vector in self._cells([row]):
                    self._finish(self._get(row, index(0), vector), index(place), vector)
            return
        self._move(self.copy, sums)
        with self.builder.loop("r", self.tiling.rows) as r, self.builder.loop("v", self.tiling.vectors) as v:
            self._finish(self._get(self.copy, r, v), r, v)

    def _finish(self, total: PrimExpr, row: Expr, vector: Expr) -> None:
        """Store one vector of results."""
        work, lanes = self.work, self.tiling.lanes
        region = point(self.places).narrow(work.row, row, 1).along(work.column, op("mul", vector, index(lanes)), lanes)
        value = self.kernel.translator.value(work.epilogue, region, {work.total: self.builder.bind("total", total)})
        self.kernel.translator.access.put_in_memory(work.target, [work.address], region, value)

    def _move(self, array: Tensor, sums: Sequence[Tensor]) -> None:
        """Copy a tile's sums to an array of many rows."""
        for where, row in self._rows(array, sums):
            for _, vector in self._cells([row]):
                self._put(array, where, vector, self._get(row, index(0), vector))

    def _add(self, array: Tensor, sums: Sequence[Tensor]) -> None:
        """Add what such an array holds to a tile's sums."""
        for where, row in self._rows(array, sums):
            for _, vector in self._cells([row]):
                self._put(row, index(0), vector, self._get(array, where, vector) + self._get(row, index(0), vector))

    def _rows(self, array: Tensor, sums: Sequence[Tensor]) -> Iterator[tuple[Expr, Tensor]]:
        """Each row of sums, and which row of an array is its."""
        first = op("mul", self.tile, index(self.tiling.rows)) if array is self.partial else index(0)
        return ((op("add", first, index(place)), row) for place, row in enumerate(sums))

    def _cells(self, sums: Sequence[Tensor]) -> Iterator[tuple[Tensor, Expr]]:
        """Every vector of some rows of sums."""
        for row in sums:
            with self.builder.loop("v", self.tiling.vectors, "unroll") as vector:
                yield row, vector

    def _zero(self) -> PrimExpr:
        from tvm.tirx import const

        return matched(const(0.0, self.work.total.dtype), self.tiling.lanes)

    def _place(self, row: Expr, vector: Expr) -> PrimExpr:
        from tvm.tirx import Ramp

        where = op("add", op("mul", row, index(self.tiling.width)), op("mul", vector, index(self.tiling.lanes)))
        start = self.builder.index(where)
        return Ramp(start, 1, self.tiling.lanes) if self.tiling.lanes > 1 else start

    def _get(self, array: Tensor, row: Expr, vector: Expr) -> PrimExpr:
        from tvm.tirx import BufferLoad

        return BufferLoad(self.kernel.arrays[array], [self._place(row, vector)])

    def _put(self, array: Tensor, row: Expr, vector: Expr, value: PrimExpr) -> None:
        self.builder.store(self.kernel.arrays[array], self._place(row, vector), value)
