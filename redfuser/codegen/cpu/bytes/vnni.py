"""A block of a product of bytes in vectors of 64: VNNI adds four products of an unsigned and a signed byte to a lane.

Factors of one sign don't fit that: the right one's is changed by flipping its highest bit, which adds or takes 128, and
what that does to a row's sums is 128 times the sum of the row's bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.codegen.cpu.bytes.block import Block
from redfuser.codegen.cpu.bytes.matrix import Matrix, cuts
from redfuser.codegen.cpu.bytes.panels import COLUMNS, QUAD, ROWS, STEP
from redfuser.codegen.cpu.values.builder import Builder, matched
from redfuser.codegen.cpu.values.vectors import fold, intrinsic
from redfuser.expr import Expr, index, op
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

#: Rows of a register tile, which is two panels wide.
HEIGHT = 8

#: What a sum over bytes of one sign must be given back for each byte of the left factor, by their sign.
SHIFT = {"ss": -128, "uu": 128}


class Vectors:
    """Writes one block."""

    def __init__(self, builder: Builder, block: Block) -> None:
        self.builder = builder
        self.block = block

    def write(self) -> None:
        """All register tiles, panels outermost."""
        builder, block = self.builder, self.block
        initial = self._row_sums() if block.signs in SHIFT else None
        for panel, panels in cuts(builder, "panel", block.panels, 2):
            for row, rows in cuts(builder, "row", block.rows, HEIGHT, block.count):
                self._tile(row, rows, panel, panels, initial)

    def _row_sums(self) -> Array:
        """What every sum of a row starts from."""
        builder, block = self.builder, self.block
        start = builder.allocate("row_start", block.rows, "int32")
        with block.each_row(builder) as row:
            (total,) = self._zeros(1, 1)
            with builder.loop("step", block.steps) as step:
                data = self._bytes(block.left.at(builder, row, op("mul", step, index(STEP)), STEP))
                ones = self._bytes(matched(self._word(0x01010101), COLUMNS))
                unsigned, signed = (ones, data) if block.signs == "ss" else (data, ones)
                self._add(total, 0, unsigned, signed)
            whole = fold(builder, lambda a, b: a + b, [self._get(total, 0)])
            builder.store(start, builder.index(row), whole * self._word(SHIFT[block.signs]))
        return start

    def _tile(self, row: Expr, rows: int, panel: Expr, panels: int, initial: Array | None) -> None:
        from tvm.tirx import BufferLoad

        builder, block = self.builder, self.block
        totals = self._zeros(rows, panels)
        if initial is not None:
            for r, total in enumerate(totals):
                value = BufferLoad(initial, [builder.index(op("add", row, index(r)))])
                for p in range(panels):
                    builder.store(total, self._lanes(p), matched(value, COLUMNS))
        if linear(block.before).expr() != index(0):
            with builder.when(builder.index(block.before) > builder.number(0)):
                for r, total in enumerate(totals):
                    for p in range(panels):
                        place = self._sum(row, r, panel, p)
                        builder.store(
                            total, self._lanes(p), self._get(total, p) + BufferLoad(block.sums.array, [place])
                        )
        # What a sum starts from counts what lies beside the filling, too.
        quads = -(-block.depth // QUAD) if block.depth and initial is None else block.steps * ROWS
        with builder.loop("quad", quads) as quad:
            right = [self._right(op("add", panel, index(p)), quad) for p in range(panels)]
            for r, total in enumerate(totals):
                left = self._left(op("add", row, index(r)), quad)
                for p in range(panels):
                    unsigned, signed = (right[p], left) if block.signs[0] == "s" else (left, right[p])
                    self._add(total, p, unsigned, signed)
        for r, total in enumerate(totals):
            for p in range(panels):
                builder.store(block.sums.array, self._sum(row, r, panel, p), self._get(total, p))

    def _sum(self, row: Expr, r: int, panel: Expr, p: int) -> PrimExpr:
        """Where a vector of sums lies."""
        column = op("mul", op("add", panel, index(p)), index(COLUMNS))
        return self.block.sums.place(self.builder, op("add", row, index(r)), column, COLUMNS)

    def _left(self, row: Expr, quad: Expr) -> PrimExpr:
        """Four bytes of a row for all columns."""
        from tvm.tirx import reinterpret

        four = self.block.left.at(self.builder, row, op("mul", quad, index(QUAD)), QUAD)
        return self._bytes(matched(self.builder.bind("four", reinterpret("int32", four)), COLUMNS))

    def _right(self, panel: Expr, quad: Expr) -> PrimExpr:
        """Four rows of a panel, of the sign that the left factor hasn't."""
        from tvm.tirx import reinterpret

        block = self.block
        lines = Matrix(block.right.array, block.right.start, STEP)
        origin = op("mul", panel, index(block.right.pitch))
        words = reinterpret(f"int32x{COLUMNS}", lines.at(self.builder, quad, origin, STEP))
        if block.signs in SHIFT:
            words = words ^ matched(self._word(-0x7F7F7F80), COLUMNS)
        return self._bytes(self.builder.bind("right", words))

    def _zeros(self, rows: int, panels: int) -> list[Array]:
        # One small array a row: LLVM keeps such in registers.
        totals = [self.builder.allocate("total", panels * COLUMNS, "int32") for _ in range(rows)]
        for total in totals:
            for p in range(panels):
                self.builder.store(total, self._lanes(p), matched(self._word(0), COLUMNS))
        return totals

    def _add(self, total: Array, p: int, unsigned: PrimExpr, signed: PrimExpr) -> None:
        words = f"int32x{COLUMNS}"
        value = intrinsic(words, "llvm.x86.avx512.vpdpbusd.512", self._get(total, p), unsigned, signed)
        self.builder.store(total, self._lanes(p), value)

    def _get(self, total: Array, p: int) -> PrimExpr:
        from tvm.tirx import BufferLoad

        return BufferLoad(total, [self._lanes(p)])

    def _lanes(self, p: int) -> PrimExpr:
        from tvm.tirx import Ramp

        return Ramp(self.builder.number(p * COLUMNS), 1, COLUMNS)

    @staticmethod
    def _bytes(words: PrimExpr) -> PrimExpr:
        from tvm.tirx import reinterpret

        return reinterpret(f"int8x{STEP}", words)

    @staticmethod
    def _word(value: int) -> PrimExpr:
        from tvm.tirx import const

        return const(value, "int32")
