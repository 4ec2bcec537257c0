"""A block of a product of bytes in AMX tiles of 16 × 64 bytes: squares of 2 × 2 tiles of sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.bytes.block import NOTHING, Block
from redfuser.codegen.cpu.bytes.matrix import Matrix, cuts
from redfuser.codegen.cpu.bytes.panels import COLUMNS, ROWS, STEP
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.expr import Expr, index, op
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

#: Tile registers: four hold sums, two of each factor.
SUMS, LEFT, RIGHT = 0, 4, 6

#: Tiles of a panel gone through at a time: a pair of panels that long stays in the first-level cache, beside as much of
#: the other factor that is read once.
PART = 8

#: Bytes of a tile.
TILE = ROWS * STEP

#: Words of a tile configuration: palette 1; eight tiles of 64 bytes a row; of 16 rows, a byte for each tile.
CONFIGURATION = {0: 1, **dict.fromkeys(range(4, 8), 64 << 16 | 64), 12: 0x10101010, 13: 0x10101010}

#: Words of the rows of tiles, and which bytes of them are those of sums and of the left factor.
HEIGHTS = {12: 0x01010101, 13: 0x00000101}


class Tiles:
    """Writes one block."""

    def __init__(self, builder: Builder, block: Block) -> None:
        self.builder = builder
        self.block = block
        self.parts = -(-block.steps // PART)
        self.length = -(-block.steps // self.parts)

    def write(self) -> None:
        """All squares; rows that fill no tile by themselves, in lower tiles."""
        builder, count = self.builder, self.block.count
        if count is None:
            self._configure()
            self._write_squares(-(-self.block.rows // ROWS))
        else:
            tiles, rest = (op(name, count, index(ROWS)) for name in ("floordiv", "floormod"))
            if self.block.rows >= ROWS:
                self._configure()
                self._write_squares(self.block.rows // ROWS, tiles)
            with builder.when(builder.index(rest) > builder.number(0)):
                self._configure(rest)
                self._write_squares(1, first=tiles)
        self._call("tilerelease")

    def _write_squares(self, most: int, tiles: Expr | None = None, first: Expr = NOTHING) -> None:
        """Those of some tiles of rows; of each pair of panels one part after another, for all rows.

        Args:
            most: tiles.
            tiles: how many there are, where it is known on the call only.
            first: of them.
        """
        builder, block = self.builder, self.block
        for panel, panels in cuts(builder, "panel", block.panels, 2):
            with builder.loop("part", self.parts) as part:
                ahead = self._next(panel, panels, part) if block.far else None
                for row, rows in cuts(builder, "row_tile", most, 2, tiles):
                    self._square(op("add", first, row), rows, panel, panels, part, ahead)

    def _configure(self, height: Expr | None = None) -> None:
        """Load the shape of all tiles; it holds for the thread that runs this.

        Args:
            height: rows of tiles of sums and of the left factor, where they aren't 16.
        """
        from tvm.tirx import BufferLoad, address_of, const

        shapes = self.builder.allocate("tile_shapes", 16, "int32")
        for word in range(16):
            value = const(CONFIGURATION.get(word, 0), "int32")
            if height is not None and word in HEIGHTS:
                fewer = const(ROWS, "int32") - self.builder.index(height).astype("int32")
                value = value - fewer * const(HEIGHTS[word], "int32")
            self.builder.store(shapes, self.builder.number(word), value)
        self._call("ldtilecfg", address_of(BufferLoad(shapes, [self.builder.number(0)])))

    def _next(self, panel: Expr, panels: int, part: Expr) -> list[Expr]:
        """Where the next part of each panel begins: of these panels, or the first of those behind them."""
        builder, block = self.builder, self.block
        number = op("add", op("mul", op("floordiv", panel, index(2)), index(self.parts)), op("add", part, index(1)))
        pair, rest = (op(name, number, index(self.parts)) for name in ("floordiv", "floormod"))
        behind = op("add", op("mul", pair, index(2 * block.right.pitch)), op("mul", rest, index(self.length * TILE)))
        most = (block.panels + 2) * block.right.pitch
        first = builder.coordinate("ahead", behind, most)
        return [op("add", first, index(p * block.right.pitch)) for p in range(panels)]

    def _prefetch(self, row: Expr, step: Expr, ahead: Sequence[Expr]) -> None:
        """This step's share of bringing the next part to the second-level cache, while there is much to compute."""
        builder, block = self.builder, self.block
        rows = block.rows if block.count is None else -(-block.rows // 2)
        steps = -(-rows // (2 * ROWS)) * self.length
        lines = -(-self.length * ROWS // steps)
        number = op("add", op("mul", op("floordiv", row, index(2)), index(self.length)), step)
        for first in ahead:
            for line in range(lines):
                place = op("add", op("mul", number, index(lines)), index(line))
                where = op("add", block.right.start, op("add", first, op("mul", place, index(STEP))))
                builder.bring(block.right.array, where)

    def _square(self, row: Expr, rows: int, panel: Expr, panels: int, part: Expr, ahead: Sequence[Expr] | None) -> None:
        """Sums of up to 2 × 2 tiles over one part of the depth."""
        builder, block = self.builder, self.block
        cells = [(r, p) for r in range(rows) for p in range(panels)]
        before = linear(op("add", part, block.before)).expr()
        with builder.when(builder.index(before).equal(builder.number(0))):
            for r, p in cells:
                self._call("tilezero", self._tile(SUMS, r, p))
        if before != index(0):
            with builder.when(builder.index(before) > builder.number(0)):
                for r, p in cells:
                    self._move("tileloadd64", row, panel, r, p)
        first = op("mul", part, index(self.length))
        even = self.parts * self.length == block.steps
        left = None if even else builder.index(op("min", op("sub", index(block.steps), first), index(self.length)))
        with builder.loop("step", self.length, "serial", left) as step:
            depth = op("mul", op("add", first, step), index(STEP))
            for p in range(panels):
                lines = Matrix(block.right.array, block.right.start, STEP)
                origin = op("mul", op("add", panel, index(p)), index(block.right.pitch))
                self._load(RIGHT + p, lines, index(0), op("add", origin, op("mul", depth, index(COLUMNS))))
            if ahead is not None:
                self._prefetch(row, step, ahead)
            for r in range(rows):
                self._load(LEFT + r, block.left, op("mul", op("add", row, index(r)), index(ROWS)), depth)
                for p in range(panels):
                    factors = [self._number(LEFT + r), self._number(RIGHT + p)]
                    self._call(f"tdpb{block.signs}d", self._tile(SUMS, r, p), *factors)
        for r, p in cells:
            self._move("tilestored64", row, panel, r, p)

    def _move(self, name: str, row: Expr, panel: Expr, r: int, p: int) -> None:
        """A tile of sums from or to memory."""
        sums = self.block.sums
        first, column = (op("mul", op("add", at, index(n)), index(ROWS)) for at, n in ((row, r), (panel, p)))
        self._access(name, self._tile(SUMS, r, p), sums, first, column, bytes_each=4)

    def _load(self, tile: int, matrix: Matrix, row: Expr, column: Expr) -> None:
        self._access("tileloadd64", self._number(tile), matrix, row, column, bytes_each=1)

    def _access(self, name: str, tile: PrimExpr, matrix: Matrix, row: Expr, column: Expr, bytes_each: int) -> None:
        from tvm.tirx import address_of, const

        pitch = const(matrix.pitch * bytes_each, "int64")
        self._call(name, tile, address_of(matrix.at(self.builder, row, column)), pitch)

    def _tile(self, first: int, r: int, p: int) -> PrimExpr:
        return self._number(first + 2 * r + p)

    @staticmethod
    def _number(tile: int) -> PrimExpr:
        from tvm.tirx import const

        return const(tile, "int8")

    def _call(self, name: str, *arguments: PrimExpr) -> None:
        from tvm.tirx import Evaluate, call_llvm_intrin

        self.builder.emit(Evaluate(call_llvm_intrin("void", f"llvm.x86.{name}", *arguments)))
