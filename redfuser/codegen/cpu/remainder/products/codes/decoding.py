"""Reads a right factor that is coded, a vector of columns at a time, and decodes parts of it.

A code becomes a number without a conversion: put into the last bits of a power of two, it is added to that, exactly,
and the power is taken off, with the shift of the code's block. One that stands further up in its word, within the bits
of a number's fraction, needs no other place: it gives a number larger by a power of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.remainder.kernel import Kernel
from redfuser.codegen.cpu.remainder.products.codes.packing import BYTES_IN_WORD, CodedPacking
from redfuser.codegen.cpu.remainder.products.sums import Sums
from redfuser.codegen.cpu.values.builder import matched
from redfuser.codegen.cpu.values.vectors import like
from redfuser.expr import Expr, Tensor, index, op
from redfuser.indexing import linear

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

#: Bits of a number's fraction, and what is added to its exponent.
FRACTION, BIAS = 23, 127


@dataclass(frozen=True)
class CodeReader:
    """Reads a block of a panel.

    Args:
        kernel: being written.
        packing: how the factor lies in memory.
        lanes: of a vector.
        start: where the block begins.
        most_places: codes of a word that are read without shifting it; any number is right.
    """

    kernel: Kernel
    packing: CodedPacking
    lanes: int
    start: Expr
    most_places: int

    @property
    def places(self) -> int:
        """Codes of a word that are read without shifting it."""
        return min(self.most_places, places_of(self.packing.coding.bits))

    def words(self, number: Expr, vector: Expr) -> PrimExpr:
        """Codes of several rows."""
        where = op("mul", number, index(self.packing.plain.width))
        words = self._read(op("add", index(self.packing.words_at), where), vector, self.lanes)
        return self.kernel.builder.bind("words", words)

    def scales(self, vector: Expr) -> PrimExpr:
        """Scales of the block."""
        from tvm.tirx import reinterpret

        words = self._read(index(0), vector, self.lanes)
        return self.kernel.builder.bind("scale", reinterpret(f"float32x{self.lanes}", words))

    def offsets(self, vector: Expr) -> list[PrimExpr]:
        """For each place of a word, what is to be taken from a code there for it to become a number of the block."""
        from tvm.tirx import const, reinterpret

        bits, builder = self.packing.coding.bits, self.kernel.builder
        zero, unit = float(1 << (bits - 1)), self.weight(0) * (1 << FRACTION)
        if not self.packing.coding.shifted:
            return [const(unit + zero * self.weight(place), "float32") for place in range(self.places)]
        words = self._read(index(self.packing.shifts_at), vector, self.lanes // BYTES_IN_WORD)
        shifts = reinterpret(f"int8x{self.lanes}", words).astype(f"float32x{self.lanes}")
        shifts = builder.bind("shifts", shifts + like(zero, shifts))
        return [
            builder.bind("offset", shifts * like(self.weight(place), shifts) + like(unit, shifts))
            for place in range(self.places)
        ]

    def weight(self, row: int) -> float:
        """What the numbers of one of the rows that share words are multiplied by, a power of two, at most 1."""
        return 2.0 ** (self.packing.coding.bits * (row % self.places + 1 - self.places))

    def numbers(self, words: PrimExpr, row: int, offsets: Sequence[PrimExpr]) -> PrimExpr:
        """Numbers of one of the rows that share these words, times their weight."""
        from tvm.tirx import reinterpret

        bits, place = self.packing.coding.bits, row % self.places
        shift = (row - place) * bits
        moved = words >> like(shift, words) if shift else words
        exponent = FRACTION - bits * (self.places - 1)
        chosen = (moved & like(((1 << bits) - 1) << (place * bits), words)) | like((exponent + BIAS) << FRACTION, words)
        taken = reinterpret(f"float32x{self.lanes}", chosen)
        return self.kernel.builder.bind("numbers", taken - matched(offsets[place], self.lanes))

    def _read(self, offset: Expr, vector: Expr, lanes: int) -> PrimExpr:
        from tvm.tirx import BufferLoad, Ramp

        where = op("add", self.start, op("add", offset, op("mul", vector, index(lanes))))
        place = self.kernel.builder.index(linear(where).expr())
        return BufferLoad(self.kernel.arrays[self.packing.tensor], [Ramp(place, 1, lanes) if lanes > 1 else place])


def places_of(bits: int) -> int:
    """How many codes fit the fraction of a number."""
    return FRACTION // bits


def decode_panel(
    sums: Sums, packing: CodedPacking, array: Tensor, panel: Expr, first: Expr, count: Expr, most: int
) -> None:
    """Decode some blocks of a panel to an array of its rows.

    Args:
        first: the block to begin with.
        count, most: how many there are, and at most.
    """
    builder, vectors = sums.kernel.builder, [index(v) for v in range(sums.tiling.vectors)]
    with builder.loop("block", most, "serial", builder.index(count)) as block:
        start = packing.address(panel, op("add", first, block))
        reader = CodeReader(sums.kernel, packing, sums.tiling.lanes, start, 1)
        scales, offsets = [reader.scales(v) for v in vectors], [reader.offsets(v) for v in vectors]
        with builder.loop("word", packing.words) as word:
            words = [reader.words(word, v) for v in vectors]
            row = op("mul", op("add", op("mul", block, index(packing.words)), word), index(packing.rows_in_word))
            for place in range(packing.rows_in_word):
                for v, scale, offset, each in zip(vectors, scales, offsets, words, strict=True):
                    number = reader.numbers(each, place, offset)
                    sums.put(array, op("add", row, index(place)), v, number * scale)
