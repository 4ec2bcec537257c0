"""Sizes of a matrix product's register tile and tasks. No TVM."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.codegen.cpu.machine import Machine
from redfuser.evaluate import numpy_dtype

#: Cycles until the result of a fused multiply-add can be used; how many start in a cycle.
LATENCY, THROUGHPUT = 4, 2

#: Cycles that a load adds in spite of the overlap with arithmetic; fitted to measured tiles.
LOAD = 0.1


@dataclass(frozen=True)
class Tiling:
    """How a product is cut up.

    Args:
        rows: of the register tile.
        vectors: width of the register tile, and of a panel of columns, in vectors.
        lanes: elements of a vector.
        blocks: parts that the rows of a panel are cut into, for parallel tasks.
    """

    rows: int
    vectors: int
    lanes: int
    blocks: int

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    def panels(self, columns: int) -> int:
        """Panels that cover so many columns."""
        return -(-columns // self.width)

    def tiles(self, rows: int) -> int:
        """Register tiles that cover so many rows."""
        return -(-rows // self.rows)

    def __str__(self) -> str:
        return f"{self.rows}x{self.width} in {self.blocks} blocks"


def choose_tiling(rows: int, columns: int, products: int, machine: Machine, dtype: str, cores: int) -> Tiling:
    """The register tile with the least estimated time, and enough tasks to keep the cores evenly busy.

    Args:
        rows, columns: of one product.
        products: number of independent products.
        dtype: of the accumulators.
    """
    lanes = min(machine.vector_bits // (8 * numpy_dtype(dtype).itemsize), columns)
    shapes = [
        (height, vectors)
        for vectors in range(1, min(4 if rows > 1 else 8, columns // lanes) + 1)
        for height in range(1, min(rows, 24) + 1)
        if (height + 1) * vectors < machine.registers
    ]

    def cost(shape: tuple[int, int]) -> tuple[float, int]:
        tiling = Tiling(*shape, lanes, 1)
        return _cycles(*shape) * tiling.tiles(rows) * tiling.panels(columns), -shape[0] * shape[1]

    best = Tiling(*min(shapes, key=cost), lanes, 1)
    tiles, panels = best.tiles(rows), best.panels(columns) * products
    blocks = min(range(1, min(tiles, 4 * cores) + 1), key=lambda b: (_imbalance(tiles, panels, b, cores), b))
    return Tiling(best.rows, best.vectors, lanes, blocks)


def _cycles(rows: int, vectors: int) -> float:
    """Estimated cycles of a register tile for one summand: arithmetic or waiting for results, and some of the loads."""
    return max(rows * vectors / THROUGHPUT, LATENCY) + LOAD * (rows + vectors)


def _imbalance(tiles: int, panels: int, blocks: int, cores: int) -> int:
    """Work of the busiest core relative to an even share, in steps of 2 %."""
    busiest = -(-panels * blocks // cores) * -(-tiles // blocks)
    return round(busiest * cores / (tiles * panels) * 50)
