"""Matrix products of bytes summed in int32, by the processor's instructions for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from redfuser.codegen.cpu.bytes.block import Block
from redfuser.codegen.cpu.bytes.matrix import Matrix, cuts
from redfuser.codegen.cpu.bytes.pack import write_packing
from redfuser.codegen.cpu.bytes.panels import COLUMNS, QUAD, ROWS, STEP, Panels
from redfuser.codegen.cpu.bytes.write import request_tiles, write_block
from redfuser.codegen.cpu.remainder.flat import stride
from redfuser.codegen.cpu.remainder.kernel import Kernel, point
from redfuser.codegen.cpu.remainder.products.contraction import Contraction
from redfuser.codegen.cpu.remainder.products.tasks import digits, product_of
from redfuser.expr import Axis, Expr, Load, Op, Tensor, axes_of, index, op, substitute
from redfuser.extents import is_symbolic, most
from redfuser.indexing import linear
from redfuser.targets import CpuTarget

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array

#: Rows and columns of a block: few panels, and rows that fill half the second-level cache with bytes.
BLOCK_ROWS, BLOCK_COLUMNS = 256, 64

#: Blocks for each core, where rows are many enough: cores end at about the same time.
BLOCKS_A_CORE = 4


@dataclass(frozen=True)
class BytePacking:
    """The right factor of a product of bytes in panels.

    Args:
        tensor: the packed bytes, flat.
        value: an element of the factor.
        panels: their order.
        pitch: bytes from one row of the factor to the next.
    """

    tensor: Tensor
    value: Load
    panels: Panels
    pitch: int

    def pack(self, constants: Mapping[Tensor, np.ndarray]) -> np.ndarray:
        """The packed factor, flat.

        Args:
            constants: contents of the flat tensor that holds the factor.
        """
        data = constants[self.value.tensor][linear(self.value.indices[0]).constant :]
        shape = (self.panels.depth, self.panels.columns)
        return self.panels.pack(np.lib.stride_tricks.as_strided(data, shape, (self.pitch, 1), writeable=False))


@dataclass(frozen=True)
class ByteProduct:
    """A contraction of bytes.

    Args:
        work: all of it.
        left: an element of the left factor.
        pitch: bytes from one row of the left factor to the next.
        over: the axis summed.
        packing: of the right factor.
    """

    work: Contraction
    left: Load
    pitch: int
    over: Axis
    packing: BytePacking

    @property
    def counts_rows(self) -> bool:
        """Whether blocks have the rows that there are and no others: of an open number, or of one row."""
        return is_symbolic(self.work.row.extent) or self.work.row.extent == 1

    def in_place(self, step: int) -> bool:
        """Whether the left factor can be read where it lies, so many bytes of a row at once: never beyond it."""
        return (self.counts_rows or self.work.row.extent >= ROWS) and self.over.extent % step == 0


def recognise_bytes(work: Contraction, target: CpuTarget, is_known: bool) -> ByteProduct | None:
    """The contraction as one of bytes; None where it isn't, or the processor has no instructions for it.

    Args:
        is_known: whether the right factor is known now: on the call, too few rows don't repay packing it.
    """
    left, right = _byte_load(work.left), _byte_load(work.right)
    if not target.multiplies_bytes or left is None or right is None or len(work.reduced) != 1:
        return None
    if any(is_symbolic(a.extent) for a in (work.column, *work.reduced)):
        return None
    few = work.row.extent == 1 or any(is_symbolic(a.extent) for a in (*work.outer, work.row))
    if few and not is_known:
        return None
    (over,), row, column = work.reduced, work.row, work.column
    left_form, right_form = linear(left.indices[0]), linear(right.indices[0])
    rows_adjacent = stride(left_form, over) == 1 and all(isinstance(a, Axis) for a, _ in left_form.terms)
    own = {a for a, _ in right_form.terms} <= {over, column} and stride(right_form, column) == 1
    if not rows_adjacent or not own or column.extent < COLUMNS:
        return None
    width = next((n for n in range(BLOCK_COLUMNS, 0, -COLUMNS) if column.extent % n == 0), COLUMNS)
    panels = Panels(over.extent, column.extent, width)
    packing = BytePacking(Tensor("packed", (panels.size,), right.dtype), right, panels, stride(right_form, over))
    return ByteProduct(work, left, stride(left_form, row), over, packing)


def _byte_load(factor: Expr) -> Load | None:
    inner = factor.args[0] if isinstance(factor, Op) and factor.name == "cast" else factor
    return inner if isinstance(inner, Load) and inner.dtype in ("int8", "uint8") else None


def write_byte_product(kernel: Kernel, product: ByteProduct, target: CpuTarget, is_packed: bool) -> None:
    """Write the loops of a product.

    Args:
        is_packed: whether the right factor is a parameter, packed; else it is packed here.
    """
    _Writer(kernel, product, target).write(is_packed)


class _Writer:
    def __init__(self, kernel: Kernel, product: ByteProduct, target: CpuTarget) -> None:
        self.kernel, self.builder = kernel, kernel.builder
        self.product, self.work = product, product.work
        self.panels = product.packing.panels
        self.granted = request_tiles(self.builder) if target.has_tiles else None
        self.has_vnni = target.has_vnni
        self.cores = target.cores
        self.rows = self._block_rows()
        self.count: Expr | None = None
        differ = product.left.dtype != product.packing.value.dtype
        # Vectors of VNNI read four bytes of a row, and whole tiles only for the sums of rows that equal signs need.
        self.step = QUAD if self.has_vnni and self.granted is None and differ else STEP

    def write(self, is_packed: bool) -> None:
        """Blocks of rows by blocks of columns; the last ones end with the matrix.

        Where rows are counted, blocks have about as many each, and the last one what is left.
        """
        packing, work, builder = self.product.packing, self.work, self.builder
        if is_packed:
            packed = self.kernel.arrays[packing.tensor]
        else:
            packed = builder.allocate("packed", self.panels.size, packing.tensor.dtype)
            first = index(linear(packing.value.indices[0]).constant)
            source = Matrix(self.kernel.arrays[packing.value.tensor], first, packing.pitch)
            write_packing(builder, source, packed, self.panels)
        row_blocks = -(-most(work.row.extent) // self.rows)
        column_blocks = len(self.panels.starts) * COLUMNS // self.panels.block
        blocks: Expr = index(row_blocks)
        if is_symbolic(work.row.extent) and row_blocks > 1:
            needed = op("floordiv", index(work.row.extent + self.rows - 1), index(self.rows))
            blocks = builder.coordinate("row_blocks", needed, row_blocks + 1)
        extents = [*(index(a.extent) for a in work.outer), blocks, index(column_blocks)]
        tasks = prod([*(most(a.extent) for a in work.outer), row_blocks, column_blocks])
        is_open = any(is_symbolic(a.extent) for a in (*work.outer, work.row))
        known = builder.index(product_of(extents)) if is_open else None
        with builder.loop("task", tasks, "parallel" if tasks > 1 else "serial", known) as task:
            *outer, row, column = digits(task, extents)
            places = dict(zip(work.outer, outer, strict=True))
            if self.product.counts_rows:
                places[work.row], self.count = self._rows(row, blocks)
            else:
                places[work.row] = self._start("row", row, self.rows, work.row)
            places[work.column] = self._start("column", column, self.panels.block, work.column)
            self._block(places, packed, op("mul", column, index(self.panels.block // COLUMNS)))

    def _block_rows(self) -> int:
        """Rows of a block: AMX has whole tiles of them, vectors about as many in each block."""
        extent = most(self.work.row.extent)
        tall = min(BLOCK_ROWS, extent)
        if self.product.counts_rows or tall < ROWS:
            return tall
        others = prod(most(a.extent) for a in self.work.outer) * len(self.panels.starts) * COLUMNS // self.panels.block
        if others < BLOCKS_A_CORE * self.cores:
            tall = min(tall, max(extent * others // (BLOCKS_A_CORE * self.cores) // ROWS, 1) * ROWS)
        return tall // ROWS * ROWS if self.granted is not None else -(-extent // -(-extent // tall))

    def _rows(self, number: Expr, blocks: Expr) -> tuple[Expr, Expr]:
        """The first row of a block, and how many it has: whole tiles, but for the last block."""
        builder, extent = self.builder, self.work.row.extent
        tiles = op("floordiv", index(extent + ROWS - 1), index(ROWS))
        each = op("floordiv", op("sub", op("add", tiles, blocks), index(1)), blocks)
        size = builder.coordinate("rows", op("mul", each, index(ROWS)), self.rows + ROWS)
        start = builder.coordinate("row", op("mul", number, size), most(extent))
        return start, builder.coordinate("count", op("min", size, op("sub", index(extent), start)), self.rows + 1)

    def _start(self, name: str, number: Expr, size: int, along: Axis) -> Expr:
        last = along.extent - size
        return self.builder.coordinate(name, op("min", op("mul", number, index(size)), index(last)), last + 1)

    def _block(self, places: dict[Axis, Expr], packed: Array, panel: Expr) -> None:
        width, room = self.panels.block, -(-self.rows // ROWS) * ROWS
        sums = self.builder.allocate("sums", room * width, "int32")
        right = Matrix(packed, op("mul", panel, index(self.panels.panel_bytes)), self.panels.panel_bytes)
        block = Block(
            self._left(places, room),
            right,
            Matrix(sums, index(0), width),
            self.rows,
            width // COLUMNS,
            self.panels.steps,
            far=True,
            count=self.count,
            depth=self.panels.depth,
        )
        write_block(self.builder, block, self.granted, self.has_vnni)
        with block.each_row(self.builder, "r") as r:
            for vector in range(width // COLUMNS):
                self._finish(places, block.sums, r, index(vector * COLUMNS))

    def _left(self, places: dict[Axis, Expr], room: int) -> Matrix:
        """The block's rows: where they lie, or a copy with room for whole tiles."""
        product, array = self.product, self.kernel.arrays[self.product.left.tensor]
        here = {**places, product.over: index(0)}
        start = substitute(product.left.indices[0], {a: here[a] for a in axes_of(product.left.indices[0])})
        source = Matrix(array, linear(start).expr(), product.pitch)
        if product.in_place(self.step):
            return source
        pitch = self.panels.steps * STEP
        copy = Matrix(self.builder.allocate("rows", room * pitch, product.left.dtype), index(0), pitch)
        count = None if self.count is None else self.builder.index(self.count)
        with self.builder.loop("r", self.rows, "serial", count) as r:
            for first, count in cuts(self.builder, "c", product.over.extent, STEP):
                place = copy.place(self.builder, r, first, count)
                self.builder.store(copy.array, place, source.at(self.builder, r, first, count))
        return copy

    def _finish(self, places: dict[Axis, Expr], sums: Matrix, row: Expr, column: Expr) -> None:
        """Store one vector of results."""
        work, translator = self.work, self.kernel.translator
        region = point(places).narrow(work.row, row, 1).along(work.column, column, COLUMNS)
        total = self.builder.bind("total", sums.at(self.builder, row, column, COLUMNS))
        value = translator.value(work.epilogue, region, {work.total: total})
        translator.access.put_in_memory(work.target, [work.address], region, value)
