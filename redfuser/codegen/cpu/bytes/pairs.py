"""A block of a product of bytes in vectors of 16-bit pairs, for processors with AVX2 alone.

Two products of 16-bit integers are added to a lane of 32 bits at once, and no sum leaves its range: exact for all
signs, where the instruction that multiplies bytes saturates. Of each four bytes that lie side by side, the first and
the third make a pair, and the second and the fourth: shifts make them, nothing changes places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.codegen.cpu.bytes.block import Block
from redfuser.codegen.cpu.bytes.matrix import Matrix, cuts
from redfuser.codegen.cpu.bytes.panels import COLUMNS, QUAD, ROWS, STEP
from redfuser.codegen.cpu.values.builder import Builder, matched
from redfuser.codegen.cpu.values.vectors import intrinsic
from redfuser.expr import Expr, index, op
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

#: Rows of a register tile, which is a panel wide; words of a vector, and bytes.
HEIGHT, LANES, BYTES = 4, 8, 32

#: Bytes of pairs of the left factor that are made at a time, a quarter of a second-level cache of 512 KB …
ROOM = 1 << 17

#: … and the fewest and most tiles of depth they reach: a panel that deep stays in the first-level cache.
DEPTHS = (4, 16)


class Pairs:
    """Writes one block."""

    def __init__(self, builder: Builder, block: Block) -> None:
        self.builder = builder
        self.block = block
        fewest, most = DEPTHS
        reach = min(max(ROOM // (2 * STEP * block.rows), fewest), most)
        self.parts = -(-block.steps // reach)
        self.length = -(-block.steps // self.parts)
        self.quads = self.length * ROWS
        self.filled = -(-block.depth // QUAD) if block.depth else block.steps * ROWS

    def write(self) -> None:
        """All register tiles: one part of the depth after another, then panels."""
        builder, block = self.builder, self.block
        wide = Matrix(builder.allocate("pairs", block.rows * 2 * self.quads, "int32"), index(0), 2 * self.quads)
        with builder.loop("part", self.parts) as part:
            first = op("mul", part, index(self.length))
            even = self.parts * self.length == block.steps
            steps = None if even else builder.index(op("min", op("sub", index(block.steps), first), index(self.length)))
            with block.each_row(builder) as row, builder.loop("step", self.length, "serial", steps) as step:
                self._widen(wide, row, op("add", first, step), step)
            with builder.loop("panel", block.panels) as panel:
                for row, rows in cuts(builder, "row_tile", block.rows, HEIGHT, block.count):
                    self._tile(wide, row, rows, panel, first)

    def _widen(self, wide: Matrix, row: Expr, step: Expr, here: Expr) -> None:
        """Pairs of one tile's bytes of a row: the first ones of all four, behind them the second ones."""
        builder, left = self.builder, self.block.left
        for half in range(STEP // BYTES):
            column = op("add", op("mul", step, index(STEP)), index(half * BYTES))
            word = op("add", op("mul", here, index(ROWS)), index(half * LANES))
            for number, pair in enumerate(self._pairs(left.at(builder, row, column, BYTES), left.array)):
                place = wide.place(builder, row, op("add", word, index(number * self.quads)), LANES)
                builder.store(wide.array, place, pair)

    def _pairs(self, data: PrimExpr, array: Array) -> tuple[PrimExpr, PrimExpr]:
        """Bytes 0 and 2 of each four as words of 16 bits, and bytes 1 and 3."""
        from tvm.tirx import const, reinterpret, shift_left, shift_right

        kind = "uint16" if str(array.dtype) == "uint8" else "int16"
        short = self.builder.bind("short", reinterpret(f"{kind}x{2 * LANES}", data))
        eight = matched(const(8, kind), 2 * LANES)
        words = shift_right(shift_left(short, eight), eight), shift_right(short, eight)
        first, second = (self.builder.bind("pair", reinterpret(f"int32x{LANES}", word)) for word in words)
        return first, second

    def _tile(self, wide: Matrix, row: Expr, rows: int, panel: Expr, first: Expr) -> None:
        """Some rows times a panel, over one part of the depth."""
        builder, block = self.builder, self.block
        # One small array a row: LLVM keeps such in registers.
        totals = [builder.allocate("total", COLUMNS, "int32") for _ in range(rows)]
        cells = [(r, v) for r in range(rows) for v in range(COLUMNS // LANES)]
        before = linear(op("add", first, block.before)).expr()
        for r, v in cells:
            builder.store(totals[r], self._lanes(v), matched(self._zero(), LANES))
        if before != index(0):
            with builder.when(builder.index(before) > builder.number(0)):
                for r, v in cells:
                    builder.store(totals[r], self._lanes(v), self._at(block.sums, row, r, panel, v))
        most, count = min(self.quads, self.filled), None
        if self.filled % most:
            left = op("sub", index(self.filled), op("mul", first, index(ROWS)))
            count = builder.index(op("min", left, index(most)))
        with builder.loop("quad", most, "serial", count) as quad:
            lines = Matrix(block.right.array, block.right.start, STEP)
            origin = op("mul", panel, index(block.right.pitch))
            line = op("add", op("mul", first, index(ROWS)), quad)
            right = [
                self._pairs(lines.at(builder, line, op("add", origin, index(v * BYTES)), BYTES), block.right.array)
                for v in range(COLUMNS // LANES)
            ]
            for r in range(rows):
                for number in range(2):
                    column = op("add", quad, index(number * self.quads))
                    left = builder.bind("left", wide.at(builder, op("add", row, index(r)), column))
                    for v, pairs in enumerate(right):
                        self._add(totals[r], v, matched(left, LANES), pairs[number])
        for r, v in cells:
            builder.store(block.sums.array, self._sum(block.sums, row, r, panel, v), self._get(totals[r], v))

    def _add(self, total: Array, v: int, left: PrimExpr, right: PrimExpr) -> None:
        from tvm.tirx import reinterpret

        factors = (reinterpret(f"int16x{2 * LANES}", factor) for factor in (left, right))
        products = intrinsic(f"int32x{LANES}", "llvm.x86.avx2.pmadd.wd", *factors)
        self.builder.store(total, self._lanes(v), self._get(total, v) + products)

    def _at(self, sums: Matrix, row: Expr, r: int, panel: Expr, v: int) -> PrimExpr:
        from tvm.tirx import BufferLoad

        return BufferLoad(sums.array, [self._sum(sums, row, r, panel, v)])

    def _sum(self, sums: Matrix, row: Expr, r: int, panel: Expr, v: int) -> PrimExpr:
        """Where a vector of sums lies."""
        column = op("add", op("mul", panel, index(COLUMNS)), index(v * LANES))
        return sums.place(self.builder, op("add", row, index(r)), column, LANES)

    def _get(self, total: Array, v: int) -> PrimExpr:
        from tvm.tirx import BufferLoad

        return BufferLoad(total, [self._lanes(v)])

    def _lanes(self, v: int) -> PrimExpr:
        from tvm.tirx import Ramp

        return Ramp(self.builder.number(v * LANES), 1, LANES)

    @staticmethod
    def _zero() -> PrimExpr:
        from tvm.tirx import const

        return const(0, "int32")
