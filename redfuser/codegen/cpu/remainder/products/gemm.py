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
from redfuser.codegen.cpu.remainder.products.codes.decoding import decode_panel
from redfuser.codegen.cpu.remainder.products.codes.few_rows import MOST_ROWS, add_coded
from redfuser.codegen.cpu.remainder.products.codes.packing import CodedPacking
from redfuser.codegen.cpu.remainder.products.contraction import Contraction
from redfuser.codegen.cpu.remainder.products.heights import height_ranges
from redfuser.codegen.cpu.remainder.products.multipliers import Decoded, Multiplier, multiplier_of
from redfuser.codegen.cpu.remainder.products.packing import Packing
from redfuser.codegen.cpu.remainder.products.sums import Sums
from redfuser.codegen.cpu.remainder.products.tasks import digits, product_of
from redfuser.codegen.cpu.remainder.products.tiling import Tiling
from redfuser.codegen.cpu.values.builder import matched
from redfuser.expr import Axis, Expr, Op, Tensor, index, op, walk
from redfuser.extents import is_symbolic, least, most
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

#: An epilogue of more operators than this is written once, in a loop over the register tile.
SHORT = 2

#: Register tiles in a block of rows, where the number of rows is known on the call only.
SYMBOLIC_TILES = 8


def write_product(kernel: Kernel, work: Contraction, tiling: Tiling, packing: Packing | CodedPacking | None) -> None:
    """Write the loops of a contraction.

    Args:
        packing: how the right factor lies in the tensor that holds it; None if it is read where it is.
    """
    _Product(kernel, work, tiling, packing).write()


class _Product:
    def __init__(
        self, kernel: Kernel, work: Contraction, tiling: Tiling, packing: Packing | CodedPacking | None
    ) -> None:
        self.kernel = kernel
        self.builder = kernel.builder
        self.work = work
        self.tiling = tiling
        self.packing = packing if isinstance(packing, Packing) else None
        self.coded = packing if isinstance(packing, CodedPacking) else None
        self.together = self.packing.together if self.packing is not None else 1
        self.few = MOST_ROWS if self.coded is not None else 0
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
        for rows in range(max(least(self.work.row.extent), 1), min(self.few, most(self.work.row.extent)) + 1):
            self.tiling, self.tiles = replace(wide, rows=rows, parts=1), 1
            with self.builder.when(self._is_within([(rows, rows)])):
                self._write_blocks(index(1), 1)
        for height, ranges in height_ranges(wide, self.work.row.extent, self.few).items():
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
            self.sums = Sums(self.kernel, tiling, work.total.dtype)
            self.copy = self.sums.array("copy", tiling.rows) if self._is_long() else None
            self.partial = self.sums.array("partial", tiles * tiling.rows) if tiling.parts > 1 else None
            first = op("mul", block, index(tiles))
            left = None if needed is None else self.builder.index(op("min", op("sub", needed, first), index(tiles)))
            with self.builder.loop("part", tiling.parts) as self.part:
                self.multiplier = self._multiplier()
                with self.builder.loop("tile", tiles, "serial", left) as self.tile:
                    self.places[work.row] = self._start("row", op("add", first, self.tile), tiling.rows, work.row)
                    self._write_tile()

    @property
    def _sums_codes(self) -> bool:
        """Whether a register tile takes all rows, each code being decoded where it is used."""
        return self.coded is not None and self.tiles == 1 and self.tiling.rows <= self.few

    def _multiplier(self) -> Multiplier:
        """Reads this part's factors; codes that many rows use are decoded first."""
        if self.coded is None or self._sums_codes:
            return multiplier_of(self.kernel, self.work, self.tiling, self.packing)
        size = -(-self.coded.blocks // self.tiling.parts)
        first = op("mul", self.part, index(size))
        array = self.sums.array("decoded", size * self.coded.coding.block)
        count = op("min", op("sub", index(self.coded.blocks), first), index(size))
        decode_panel(self.sums, self.coded, array, self.panel, first, count, size)
        start = linear(op("mul", first, index(self.coded.coding.block))).expr()
        return Decoded(self.kernel, self.work, self.tiling, None, array, start)

    def _is_long(self) -> bool:
        """Whether the epilogue is worth a loop of its own."""
        return sum(isinstance(node, Op) for node in walk(self.work.epilogue)) > SHORT

    def _start(self, name: str, number: Expr, size: int, along: Axis) -> Expr:
        """First point of a tile, moved back where the tile would leave the axis."""
        last = along.extent - size
        return self.builder.coordinate(name, op("min", op("mul", number, index(size)), index(last)), most(last) + 1)

    def _write_tile(self) -> None:
        sums = self.sums.tile()
        if self.coded is not None and self._sums_codes:
            add_coded(self.sums, self.coded, sums, self.panel, self.work, self.places)
        else:
            self._add_all(sums)
        if self.partial is None:
            self._finish_all(sums)
            return
        first = op("mul", self.tile, index(self.tiling.rows))
        with self.builder.when(self.builder.index(self.part) > self.builder.number(0)):
            self.sums.add(self.partial, first, sums)
        last = self.builder.number(self.tiling.parts - 1)
        with self.builder.when(self.builder.index(self.part) < last):
            self.sums.move(self.partial, first, sums)
        with self.builder.when(self.builder.index(self.part) >= last):
            self._finish_all(sums)

    def _add_all(self, sums: Sequence[Tensor]) -> None:
        """All summands of this part."""
        with self._summands() as deep:
            if self.packing is not None:
                array = self.kernel.arrays[self.packing.tensor]
                now = Progress(deep, self.places, self.panel, self.part, self.tile, self.tiles)
                bring_panel(self.builder, array, self.packing, self.tiling, now)
            self._multiply(sums, deep)

    @contextmanager
    def _summands(self) -> Iterator[dict[Axis, Expr]]:
        """The loops over what is summed up in this part."""
        if self.tiling.parts == 1 and self.together == 1:
            with ExitStack() as stack:
                yield {a: stack.enter_context(self.builder.loop("k", a.extent)) for a in self.work.reduced}
            return
        (axis,) = self.work.reduced
        unit = self.coded.coding.block if self.coded is not None else self.together
        units, steps = axis.extent // unit, unit // self.together
        size = -(-units // self.tiling.parts)
        first = op("mul", self.part, index(size))
        count = None
        if self.tiling.parts > 1:
            left = op("mul", op("min", op("sub", index(units), first), index(size)), index(steps))
            count = self.builder.bind("count", self.builder.index(left))
        with self.builder.loop("k", size * steps, "serial", count) as k:
            step = op("add", op("mul", first, index(steps)), k)
            yield {axis: linear(op("mul", step, index(self.together))).expr()}

    def _multiply(self, sums: Sequence[Tensor], deep: Mapping[Axis, Expr]) -> None:
        """One summand, or a pair of them, for every element of the register tile."""
        places = point({**self.places, **deep})
        for place, row in enumerate(sums):
            here = places.narrow(self.work.row, index(place), 1)
            left = self.builder.bind("left", matched(self.multiplier.left(here), self.tiling.lanes))
            with self.builder.loop("v", self.tiling.vectors, "unroll") as vector:
                right, total = self.multiplier.right(places, self.panel, vector), self.sums.get(row, index(0), vector)
                self.sums.put(row, index(0), vector, self.multiplier.add(total, left, right))

    def _finish_all(self, sums: Sequence[Tensor]) -> None:
        """Store the results of a tile."""
        if self.copy is None:
            for place, row in enumerate(sums):
                for _, vector in self.sums.cells([row]):
                    self._finish(self.sums.get(row, index(0), vector), index(place), vector)
            return
        self.sums.move(self.copy, index(0), sums)
        with self.builder.loop("r", self.tiling.rows) as r, self.builder.loop("v", self.tiling.vectors) as v:
            self._finish(self.sums.get(self.copy, r, v), r, v)

    def _finish(self, total: PrimExpr, row: Expr, vector: Expr) -> None:
        """Store one vector of results."""
        work, lanes = self.work, self.tiling.lanes
        region = point(self.places).narrow(work.row, row, 1).along(work.column, op("mul", vector, index(lanes)), lanes)
        value = self.kernel.translator.value(work.epilogue, region, {work.total: self.builder.bind("total", total)})
        self.kernel.translator.access.put_in_memory(work.target, [work.address], region, value)
