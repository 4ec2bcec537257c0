"""Contractions of a tile program that are products of bytes, taken out as whole blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from redfuser.codegen.cpu.bytes.block import Block
from redfuser.codegen.cpu.bytes.matrix import Matrix, cuts
from redfuser.codegen.cpu.bytes.pack import write_columns, write_packing
from redfuser.codegen.cpu.bytes.panels import COLUMNS, ROWS, STEP, Panels
from redfuser.codegen.cpu.bytes.write import request_tiles, write_block
from redfuser.codegen.cpu.lowering.nests import BlockProduct
from redfuser.codegen.cpu.lowering.region import Region
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.expr import Axis, Const, Expr, Load, Op, Tensor, index, loads, op
from redfuser.extents import is_symbolic, most
from redfuser.indexing import linear
from redfuser.tile.ir import Contract, Fill, Map, Phase, Reduce, Statement, Store, Stream, TileProgram

if TYPE_CHECKING:
    from tvm.tirx import Buffer as Array
    from tvm.tirx import PrimExpr

BYTES = ("int8", "uint8")

#: So many blocks of rows pack what they need each for themselves: a large weight isn't written to memory again.
FEW_BLOCKS = 1

#: Share of the second-level cache for panels that are packed at once, and the fewest and most tiles of each: rows of
#: the matrix are pages apart, and the processor keeps track of so many.
SLAB_SHARE, SLAB = 3 / 8, (8, 32)


def take_out(program: TileProgram) -> TileProgram:
    """The program with :class:`BlockProduct` for every contraction that is one."""
    phases = tuple(replace(phase, body=_rewritten(phase, program)) for phase in program.phases)
    return replace(program, phases=phases)


def products_of(program: TileProgram) -> list[BlockProduct]:
    """Those of a program from :func:`take_out`."""
    return [s for phase in program.phases for s in phase.body if isinstance(s, BlockProduct)]


def _rewritten(phase: Phase, program: TileProgram) -> tuple[Statement, ...]:
    body: list[Statement] = []
    for statement in phase.body:
        product = _product(statement, phase, program)
        if product is None:
            body.append(statement)
            continue
        started = [s for s in body if isinstance(s, Fill) and s.target == product.target and s.value == 0]
        if len(started) != 1:
            return phase.body
        # Not of the tile IR: only the lowering of this phase meets it.
        body = [*(s for s in body if s is not started[0]), cast(Statement, product)]
    return tuple(body)


def _product(statement: Statement, phase: Phase, program: TileProgram) -> BlockProduct | None:
    """A stream in one step that does nothing but multiply bytes in memory."""
    if not isinstance(statement, Stream) or is_symbolic(statement.axis.extent):
        return None
    *maps, contract = statement.body
    whole = (statement.start, statement.stop) == (index(0), index(statement.axis.extent))
    if not isinstance(contract, Contract) or contract.over != statement.axis or not whole:
        return None
    if statement.tile != statement.axis.extent or contract.target.tensor.dtype != "int32":
        return None
    if not all(isinstance(s, Map) for s in maps):
        return None
    kept = {s.target.value: s.value for s in maps if isinstance(s, Map)}
    left, right = (_bytes(kept.get(side, side)) for side in (contract.left, contract.right))
    if left is None or right is None:
        return None
    return _checked(left, right, contract, phase, program)


def _bytes(operand: Expr) -> Load | None:
    inner = operand.args[0] if isinstance(operand, Op) and operand.name == "cast" else operand
    return inner if isinstance(inner, Load) and inner.dtype in BYTES else None


def _checked(left: Load, right: Load, contract: Contract, phase: Phase, program: TileProgram) -> BlockProduct | None:
    """The product if both factors lie in memory as its code reads them."""
    memory, over = (*program.inputs, *program.workspaces), contract.over
    if left.tensor not in memory or right.tensor not in memory or len(right.indices) != 2:
        return None
    rows, column = _row_axes(left), right.indices[1]
    if left.indices[-1] != over or right.indices[0] != over or not isinstance(column, Axis) or not rows:
        return None
    tiles = {tile.axis: tile.size for tile in phase.grid}
    if {*contract.target.axes} != {*rows, column} or any(tiles.get(a) != 1 for a in rows[:-1]):
        return None
    if is_symbolic(column.extent) or any(is_symbolic(a.extent) and a not in tiles for a in rows):
        return None
    row, block = rows[-1], tiles.get(column, column.extent)
    fits = block % COLUMNS == 0 and (left.tensor.shape[-1], right.tensor.shape[1]) == (over.extent, column.extent)
    whole = over.extent % STEP == 0 and not is_symbolic(row.extent) and row.extent % ROWS == 0
    padded = left.tensor in program.workspaces or whole
    if not fits or not padded or (row in tiles and tiles[row] % ROWS and tiles[row] != most(row.extent)):
        return None
    panels = Panels(over.extent, column.extent, block)
    few_rows = not is_symbolic(row.extent) and -(-row.extent // tiles.get(row, row.extent)) <= FEW_BLOCKS
    return BlockProduct(contract.target, left, right, row, column, over, panels, few_rows)


def _row_axes(left: Load) -> list[Axis]:
    """What tells rows apart; none where that isn't axes and constants alone."""
    rows = [i for i in left.indices[:-1] if not isinstance(i, Const)]
    axes = [i for i in rows if isinstance(i, Axis)]
    return axes if len(axes) == len(rows) else []


def packable(program: TileProgram) -> dict[Tensor, Panels]:
    """Inputs that nothing but one kind of product reads, so that they may be handed over packed."""
    taken = take_out(program)
    found = {product.right.tensor: product.panels for product in products_of(taken)}
    others = [node.tensor for phase in taken.phases for s in _statements(phase.body) for node in _loads(s)]
    kinds = {(product.right.tensor, product.panels) for product in products_of(taken)}
    return {
        tensor: panels
        for tensor, panels in found.items()
        if tensor in program.inputs and tensor not in others and sum(t == tensor for t, _ in kinds) == 1
    }


def _statements(body: Sequence[Statement]) -> Iterator[Statement]:
    for statement in body:
        yield from _statements(statement.body) if isinstance(statement, Stream) else [statement]


def _loads(statement: Statement) -> Iterator[Load]:
    """What a statement other than a block product reads."""
    if isinstance(statement, Contract):
        yield from (*loads(statement.left), *loads(statement.right))
    elif isinstance(statement, Map | Reduce | Store):
        yield from loads(statement.value)


def pitch(tensor: Tensor) -> int:
    """Bytes from one row of a left factor to the next: rows that are tiles apart don't meet in the cache."""
    return -(-tensor.shape[-1] // STEP) * STEP + STEP


def _slab(steps: int, panels: int, cache_bytes: int) -> int:
    """Tiles of each panel that are packed at once, an equal part of all where there is one of about that size."""
    fewest, most = SLAB
    room = min(max(int(cache_bytes * SLAB_SHARE) // (panels * STEP * COLUMNS), fewest), most, steps)
    return max((n for n in range(room // 2 + 1, room + 1) if steps % n == 0), default=room)


@dataclass
class ByteProducts:
    """Writes the block products of one function.

    Args:
        machine: gives the size of slabs, and says which instructions there are.
        granted: whether there may be tiles; None on processors without.
        flat: tensors of left factors -> flat arrays.
        pitches: of these.
        packed: right factors and their panels -> the packed array; a block packs what isn't among them itself.
    """

    builder: Builder
    machine: Machine
    granted: PrimExpr | None
    flat: Mapping[Tensor, Array]
    pitches: Mapping[Tensor, int]
    packed: Mapping[tuple[Tensor, Panels], Array]

    @staticmethod
    def prepare(
        builder: Builder,
        products: Sequence[BlockProduct],
        flat: Mapping[Tensor, Array],
        pitches: Mapping[Tensor, int],
        machine: Machine,
        packed: Collection[Tensor],
    ) -> ByteProducts:
        """Ask for tiles, and pack right factors.

        Args:
            flat: flat arrays of both factors.
            packed: right factors that are packed already.
        """
        granted = request_tiles(builder) if machine.has_tiles else None
        arrays: dict[tuple[Tensor, Panels], Array] = {}
        for product in products:
            tensor, panels = product.right.tensor, product.panels
            if tensor in packed:
                arrays[tensor, panels] = flat[tensor]
            elif (tensor, panels) not in arrays and not product.few_rows:
                array = builder.allocate(f"{tensor.name}_packed", panels.size, tensor.dtype)
                write_packing(builder, Matrix(flat[tensor], index(0), panels.columns), array, panels)
                arrays[tensor, panels] = array
        return ByteProducts(builder, machine, granted, flat, pitches, arrays)

    def write(self, product: BlockProduct, region: Region, sums: Array, sums_pitch: int) -> None:
        """One block."""
        panels, tensor = product.panels, product.left.tensor
        points = region.points()
        row: Expr = index(0)
        for extent, position in zip(tensor.shape[:-1], product.left.indices[:-1], strict=True):
            here = points[position] if isinstance(position, Axis) else position
            row = op("add", op("mul", row, index(extent)), here)
        left = Matrix(self.flat[tensor], op("mul", row, index(self.pitches[tensor])), self.pitches[tensor])
        rows, count = region.width(product.row), -(-region.width(product.column) // COLUMNS)
        totals = Matrix(sums, index(0), sums_pitch)
        packed = self.packed.get((product.right.tensor, panels))
        if packed is None:
            self._pack_and_write(product, region.points()[product.column], left, totals, rows, count)
            return
        first = op("mul", self._panel(product, region), index(panels.panel_bytes))
        right = Matrix(packed, first, panels.panel_bytes)
        self._block(Block(left, right, totals, rows, count, panels.steps, far=True))

    def _pack_and_write(
        self, product: BlockProduct, column: Expr, left: Matrix, sums: Matrix, rows: int, count: int
    ) -> None:
        """The block from slabs of the right factor, each used as soon as it is packed: it never leaves the cache."""
        builder, panels, tensor = self.builder, product.panels, product.right.tensor
        most = _slab(panels.steps, count, self.machine.cache_bytes)
        array = builder.allocate("panels", count * most * STEP * COLUMNS, tensor.dtype)
        for row, depth in cuts(builder, "slab", panels.depth, most * STEP):
            slab = replace(panels, depth=depth)
            source = Matrix(self.flat[tensor], op("mul", row, index(panels.columns)), panels.columns)
            right = Matrix(array, index(0), slab.panel_bytes)
            write_columns(builder, source, right, slab, index(0), column, count)
            part = replace(left, start=op("add", left.start, row))
            self._block(Block(part, right, sums, rows, count, slab.steps, row))

    def _block(self, block: Block) -> None:
        write_block(self.builder, block, self.granted, self.machine.has_vnni)

    @staticmethod
    def _panel(product: BlockProduct, region: Region) -> Expr:
        """The first panel of the block's columns: those of the last block, moved back, come last."""
        panels, start = product.panels, linear(region.points()[product.column]).expr()
        if isinstance(start, Const) and start.value:
            return index(panels.columns // panels.block * panels.block // COLUMNS)
        return op("floordiv", start, index(COLUMNS))
