"""Products of few rows by a right factor that is coded: each code is decoded where it is used.

The scale of a block is applied to its sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.remainder.kernel import point
from redfuser.codegen.cpu.remainder.products.codes.decoding import CodeReader
from redfuser.codegen.cpu.remainder.products.codes.packing import CodedPacking
from redfuser.codegen.cpu.remainder.products.contraction import Contraction
from redfuser.codegen.cpu.remainder.products.sums import Sums
from redfuser.codegen.cpu.remainder.products.tiling import Tiling
from redfuser.codegen.cpu.values.builder import matched
from redfuser.codegen.cpu.values.vectors import like
from redfuser.expr import Axis, Expr, Tensor, index, op
from redfuser.extents import Extent, is_symbolic
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

#: More rows than this share what was decoded once.
MOST_ROWS = 8

#: Registers beside those of a block's sums.
OTHERS = 12


def coded_tiling(plain: Tiling, rows: Extent) -> Tiling:
    """The tiling of a product whose factor is coded, given what it would be otherwise.

    Few rows make a register tile of their own, of one vector where they are more than two: sums of a block are several.
    """
    if is_symbolic(rows) or rows > MOST_ROWS:
        return plain
    return replace(plain, rows=rows, vectors=min(plain.vectors, 2 if rows < 3 else 1), blocks=1, parts=1, strips=False)


def add_coded(
    sums: Sums,
    packing: CodedPacking,
    totals: Sequence[Tensor],
    panel: Expr,
    work: Contraction,
    places: Mapping[Axis, Expr],
) -> None:
    """Add all products of a panel to a register tile's sums, block by block.

    Args:
        totals: the sums of each row.
        places: where the tile is: every axis but the one that is summed.
    """
    kernel, tiling = sums.kernel, sums.tiling
    room = max((kernel.machine.registers - OTHERS) // (len(totals) * tiling.vectors), 1)
    vectors = [index(v) for v in range(tiling.vectors)]
    (over,) = work.reduced

    def left(row: int, summand: Expr) -> PrimExpr:
        here = point({**places, over: linear(summand).expr()}).narrow(work.row, index(row), 1)
        value = matched(kernel.translator.value(work.left, here), tiling.lanes)
        return kernel.builder.bind("left", value)

    with kernel.builder.loop("block", packing.blocks) as block:
        reader = CodeReader(kernel, packing, tiling.lanes, packing.address(panel, block), room)
        offsets = [reader.offsets(v) for v in vectors]
        # Numbers of one weight have sums of their own.
        parts = [sums.tile("part") for _ in range(reader.places)]
        with kernel.builder.loop("word", packing.words) as word:
            words = [reader.words(word, v) for v in vectors]
            first = op("add", op("mul", block, index(packing.words)), word)
            first = op("mul", first, index(packing.rows_in_word))
            for step in range(packing.rows_in_word):
                numbers = [reader.numbers(each, step, own) for each, own in zip(words, offsets, strict=True)]
                for row, part in enumerate(parts[step % reader.places]):
                    factor = left(row, op("add", first, index(step)))
                    for v, number in zip(vectors, numbers, strict=True):
                        sums.put(part, index(0), v, sums.get(part, index(0), v) + factor * number)
        _add_block(reader, sums, parts, totals)


def _add_block(reader: CodeReader, sums: Sums, parts: Sequence[Sequence[Tensor]], totals: Sequence[Tensor]) -> None:
    """The sums of a block, each by its weight, scaled, to those of all."""
    for vector in map(index, range(sums.tiling.vectors)):
        scale = reader.scales(vector)
        for row, total in enumerate(totals):
            shares = [sums.get(part[row], index(0), vector) for part in parts]
            found = shares[-1]
            for place, share in enumerate(shares[:-1]):
                found = found + share * like(1 / reader.weight(place), share)
            sums.put(total, index(0), vector, sums.get(total, index(0), vector) + found * scale)
