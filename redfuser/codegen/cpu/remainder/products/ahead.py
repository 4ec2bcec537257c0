"""Prefetches of packed panels: what a register tile reads is in the cache before it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.machine import LINE_BYTES
from redfuser.codegen.cpu.remainder.products.packing import Packing
from redfuser.codegen.cpu.remainder.products.tiling import Tiling
from redfuser.codegen.cpu.values.builder import Builder
from redfuser.expr import Axis, Expr, index, op
from redfuser.expr.evaluate import numpy_dtype

if TYPE_CHECKING:
    from tvm.tirx import Buffer

#: How far ahead a panel is brought from memory where nothing hides that it is read: several kilobytes.
SUMMANDS_AHEAD = 24


@dataclass(frozen=True)
class Progress:
    """Where the loops of a product are.

    Args:
        deep: the summand.
        places: the other axes.
        panel: of columns.
        part: of the sum.
        tile: of the block's rows.
        tiles: how many of these a block has.
    """

    deep: Mapping[Axis, Expr]
    places: Mapping[Axis, Expr]
    panel: Expr
    part: Expr
    tile: Expr
    tiles: int


def bring_panel(builder: Builder, array: Buffer, packing: Packing, tiling: Tiling, now: Progress) -> None:
    """Bring a part of the next panel closer: all tiles together bring all of it, so that no tile waits for memory.

    One prefetch for each step of the sum is free beside the arithmetic. Where there are too few tiles for that,
    arithmetic waits for memory anyway, and each brings all that is read a few summands later.

    Args:
        array: holds the packed factor.
    """
    step, itemsize = -(-tiling.width // now.tiles), numpy_dtype(packing.tensor.dtype).itemsize
    width = packing.strip * packing.together
    first = packing.address({**now.places, **dict.fromkeys(now.deep, index(0))}, now.panel)
    if step * packing.together * itemsize > LINE_BYTES:
        last = index(packing.depth - packing.together)
        later = op("min", op("add", packing.summand(now.deep), index(SUMMANDS_AHEAD)), last)
        later = op("add", first, op("mul", later, index(packing.strip)))
        for strip in range(tiling.width // packing.strip):
            for line in range(0, width * itemsize, LINE_BYTES):
                away = strip * packing.strip_size + line // itemsize
                builder.bring(array, op("add", later, index(away)))
        return
    size = packing.panel_size
    # The panel after the last is the first, which the next block of rows begins with.
    after = op("floormod", op("add", first, index(size)), index(packing.tensor.size))
    # Summands of all tiles and parts so far; the summand's number counts those of earlier parts once already.
    length = -(-packing.depth // tiling.parts)
    before = op("add", op("mul", now.tile, index(length)), op("mul", now.part, index((now.tiles - 1) * length)))
    done = op("add", before, packing.summand(now.deep))
    ahead = op("min", op("mul", done, index(step)), index(size - 1))
    builder.bring(array, op("add", after, ahead))
