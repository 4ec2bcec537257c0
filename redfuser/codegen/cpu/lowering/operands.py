"""Operands of register tiles: while one tile sums, what a later one multiplies by is brought closer.

A product in a stream reads a matrix in memory an element at a time, each for a whole row of accumulators. Its
multiply-adds leave the units that load idle, but what comes from memory, or another core, is late: the first block that
reads a tile of keys or values waits for every line of it. One prefetch a term of the sum hides that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from redfuser.codegen.cpu.lowering.prefetch import Prefetch
from redfuser.codegen.cpu.lowering.storage import Layout
from redfuser.codegen.cpu.lowering.strides import Strides, value_loads
from redfuser.codegen.cpu.machine import LINE_BYTES
from redfuser.codegen.cpu.values.builder import arithmetic
from redfuser.expr import Axis, Expr, Load, Tensor, axes_of, index, op, substitute
from redfuser.expr.evaluate import numpy_dtype
from redfuser.extents import most
from redfuser.tile.ir import Contract, Phase, Stream


@dataclass(frozen=True)
class Operand:
    """A matrix in memory that a contraction in a stream multiplies by.

    Args:
        load: its element.
        over: the axis summed.
        stream: the stream's axis, which is ``over`` or an axis of the target.
        tile: points of a tile of the stream.
    """

    load: Load
    over: Axis
    stream: Axis
    tile: int

    def ahead(self, term: Expr, block: Axis | None, rows: int, lane: Axis | None) -> Prefetch | None:
        """What to bring closer beside one term of a register tile's sum; ``None`` if this tile reads vectors of it.

        Summing along the stream, it is the element that the stream's next tile multiplies by in this place. Else it is
        a line of the rows of the next register tile: the terms take turns at those rows.

        Args:
            term: number of the term.
            block: the axis that the rows of the register tile lie along.
            rows: how many.
            lane: the axis that its vectors lie along.
        """
        if lane in axes_of(self.load):
            return None
        if self.over == self.stream:
            return self._at({self.stream: self._later(index(self.tile))}, nearest=False)
        if block != self.stream:
            return None
        turns = 1 << (rows - 1).bit_length()
        turns = min(turns, LINE_BYTES // numpy_dtype(self.load.tensor.dtype).itemsize)
        turn = op("floormod", term, index(turns))
        row = self._later(op("add", index(rows), turn))
        return self._at({self.stream: row, self.over: op("sub", self.over, turn)}, nearest=True)

    def _later(self, points: Expr) -> Expr:
        """A point of the stream further on, but inside the matrix."""
        return op("min", op("add", self.stream, points), index(self.stream.extent - 1))

    def _at(self, places: Mapping[Expr, Expr], nearest: bool) -> Prefetch:
        indices = tuple(substitute(i, places) for i in self.load.indices)
        return Prefetch(self.load.tensor, (), indices, write=False, nearest=nearest)


def plan_operands(phase: Phase, layouts: Mapping[Tensor, Layout]) -> dict[Tensor, tuple[Operand, ...]]:
    """What contractions in streams multiply by and can be read ahead of, by the tensor that they add to."""
    streams = [item for item in phase.body if isinstance(item, Stream)]
    planned: dict[Tensor, tuple[Operand, ...]] = {}
    for stream in streams:
        for contract in (s for s in stream.body if isinstance(s, Contract)):
            tensor = contract.target.tensor
            planned[tensor] = planned.get(tensor, ()) + tuple(_operands(contract, stream, layouts))
    return planned


def _operands(contract: Contract, stream: Stream, layouts: Mapping[Tensor, Layout]) -> Iterator[Operand]:
    over = contract.over
    strides = Strides(layouts, {over: most(over.extent)})
    for load in (node for side in (contract.left, contract.right) for node in value_loads(side)):
        if load.tensor in layouts or not {over, stream.axis} <= axes_of(load) or not all(map(arithmetic, load.indices)):
            continue
        later = over == stream.axis and most(stream.axis.extent) > stream.tile
        if later or (over != stream.axis and strides.of_load(load, over) == 1):
            yield Operand(load, over, stream.axis, stream.tile)
