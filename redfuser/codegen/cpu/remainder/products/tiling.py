"""Sizes of a matrix product's register tile and tasks. No TVM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.remainder.products.contraction import Contraction
from redfuser.expr import axis
from redfuser.expr.evaluate import numpy_dtype
from redfuser.extents import is_symbolic, most
from redfuser.targets import CpuTarget

#: Cycles until the result of a fused multiply-add can be used; how many start in a cycle.
LATENCY, THROUGHPUT = 4, 2

#: Rows of a matrix whose number of rows is known on the call only.
USUAL_ROWS = 512

#: Cycles that a load adds in spite of the overlap with arithmetic; fitted to measured tiles.
LOAD = 0.1

#: Summands that are added up one after another, at most: a longer sum is one of such sums, which round less often.
#: At 8192 summands the error is a quarter of that of one sum.
LONGEST_SUM = 512

#: Widest vectors for which a panel that is read once, from memory, is packed in strips: one stream of reads doesn't
#: keep memory busy, seven took 0.6 times as long with AVX2. Not measured on wider ones.
STRIP_BITS = 256


@dataclass(frozen=True)
class Tiling:
    """How a product is cut up.

    Args:
        rows: of the register tile.
        vectors: width of the register tile, and of a panel of columns, in vectors.
        lanes: elements of a vector.
        blocks: parts that the rows are cut into; all panels are gone through for one before the next.
        parts: parts that a sum is cut into, each a sum of its own; all tiles of a panel are gone through for one before
            the next.
        strips: whether it is worth while to pack each vector of a panel's rows in a strip of its own.
    """

    rows: int
    vectors: int
    lanes: int
    blocks: int = 1
    parts: int = 1
    strips: bool = False

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    def panels(self, columns: int) -> int:
        """Panels that cover so many columns."""
        return -(-columns // self.width)

    def tiles(self, rows: int) -> int:
        """Register tiles in a block, if all blocks together cover so many rows."""
        return -(-rows // (self.rows * self.blocks))

    def __str__(self) -> str:
        return f"{self.rows}x{self.width} in {self.blocks} blocks and {self.parts} parts"


def choose_tiling(work: Contraction, target: CpuTarget) -> Tiling:
    """The register tile with the least estimated time; blocks of rows that fit the cache and keep all cores busy.

    A symbolic number of rows is taken to be :data:`USUAL_ROWS`; their blocks are counted on the call.
    """
    if is_symbolic(work.row.extent):
        usual = replace(work, row=axis(work.row.name, min(USUAL_ROWS, most(work.row.extent))))
        return replace(choose_tiling(usual, target), blocks=1)
    rows, columns, dtype = work.row.extent, work.column.extent, work.total.dtype
    machine = Machine.of(target)
    lanes = min(target.vector_bits // (8 * numpy_dtype(dtype).itemsize), columns)
    shapes = [
        Tiling(height, vectors, lanes)
        for vectors in range(1, min(4 if rows > 1 else 8, columns // lanes) + 1)
        for height in range(1, min(rows, 24) + 1)
        if (height + 1) * vectors < machine.registers
    ]

    def cost(shape: Tiling) -> tuple[float, int]:
        return cycles(shape) * shape.tiles(rows) * shape.panels(columns), -shape.rows * shape.vectors

    best = min(shapes, key=cost)
    itemsize, cache = numpy_dtype(dtype).itemsize, target.l2_kb * 1024
    parts = -(-work.depth * best.width * itemsize // (cache // 4)) if len(work.reduced) == 1 else 1
    sums = -(-work.depth // LONGEST_SUM) if len(work.reduced) == 1 and "float" in dtype else 1
    fewest = -(-rows * work.depth * itemsize // (parts * cache // 2))
    limit = min(best.tiles(rows), max(4 * target.cores, 2 * fewest))
    choices = [replace(best, blocks=n) for n in range(min(fewest, limit), limit + 1)]
    panels = prod(a.extent for a in work.outer) * best.panels(columns)
    chosen = min(choices, key=lambda c: (_busiest(c, rows, panels, target.cores), c.blocks))
    strips = chosen.tiles(rows) == 1 and chosen.vectors > 1 and target.vector_bits <= STRIP_BITS
    return replace(chosen, parts=max(sums, parts if chosen.tiles(rows) > 1 else 1), strips=strips)


def cycles(tiling: Tiling) -> float:
    """Estimated cycles of a register tile for one summand: arithmetic or waiting for results, and some of the loads."""
    arithmetic = max(tiling.rows * tiling.vectors / THROUGHPUT, LATENCY)
    return arithmetic + LOAD * (tiling.rows + tiling.vectors)


def _busiest(tiling: Tiling, rows: int, panels: int, cores: int) -> int:
    """Time of the busiest core, in tiles; fetching a panel takes about as long as one."""
    return -(-panels * tiling.blocks // cores) * (tiling.tiles(rows) + 1)
