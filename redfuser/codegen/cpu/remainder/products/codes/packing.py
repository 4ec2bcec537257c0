"""The right factor of a product as codes of a few bits: a word of each column holds those of several rows.

Panels of columns as in the packing of numbers; of each, block after block: its scales, its shifts, its words. No TVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from redfuser.codegen.cpu.remainder.products.codes.coding import Coding, encode
from redfuser.codegen.cpu.remainder.products.packing import Packing
from redfuser.expr import Expr, Tensor, index, op

WORD_BITS, BYTES_IN_WORD = 32, 4

#: Columns of the widest vector: with fewer, vectors aren't full.
WIDEST_VECTOR = 16


@dataclass(frozen=True)
class CodedPacking:
    """Panels of a right factor in codes.

    Args:
        tensor: words of int32, flat.
        plain: the panels as numbers.
        coding: how these are coded.
    """

    tensor: Tensor
    plain: Packing
    coding: Coding

    @property
    def value(self) -> Expr:
        """The factor as it is stored."""
        return self.plain.value

    @property
    def rows_in_word(self) -> int:
        """Rows whose codes share a word."""
        return WORD_BITS // self.coding.bits

    @property
    def blocks(self) -> int:
        """Blocks of a column."""
        return self.plain.depth // self.coding.block

    @property
    def words(self) -> int:
        """Words of a column in a block."""
        return self.coding.block // self.rows_in_word

    @property
    def shifts_at(self) -> int:
        """Where the shifts of a block begin: behind its scales."""
        return self.plain.width

    @property
    def words_at(self) -> int:
        """Where the codes of a block begin."""
        return self.shifts_at + (self.plain.width // BYTES_IN_WORD if self.coding.shifted else 0)

    @property
    def block_size(self) -> int:
        """Words of a block of a panel, all told."""
        return self.words_at + self.words * self.plain.width

    def address(self, panel: Expr, block: Expr) -> Expr:
        """Where a block begins."""
        number = op("add", op("mul", panel, index(self.blocks)), block)
        return op("mul", number, index(self.block_size))

    def pack(self, constants: Mapping[Tensor, np.ndarray]) -> np.ndarray:
        """The coded factor, flat.

        Args:
            constants: contents of the flat tensor that the factor loads.
        """
        codes = encode(self.plain.matrices(constants)[0], self.coding.bits, self.coding.block)
        assert codes is not None, f"not a weight of {self.coding}"
        columns = np.add.outer(self.plain.starts, np.arange(self.plain.width)).reshape(-1)
        panels, width = len(self.plain.starts), self.plain.width
        packed = np.empty((self.blocks, panels, self.block_size), np.int32)
        packed[..., : self.shifts_at] = codes.scales[:, columns].view(np.int32).reshape(self.blocks, panels, -1)
        if self.coding.shifted:
            shifts = np.ascontiguousarray(codes.shifts[:, columns]).view(np.int32)
            packed[..., self.shifts_at : self.words_at] = shifts.reshape(self.blocks, panels, -1)
        words = self._words(codes.codes)[..., columns].reshape(self.blocks, self.words, panels, width)
        packed[..., self.words_at :] = words.swapaxes(1, 2).reshape(self.blocks, panels, -1)
        return np.ascontiguousarray(packed.swapaxes(0, 1)).reshape(-1)

    def _words(self, codes: np.ndarray) -> np.ndarray:
        """The words of all columns, (blocks, words, columns): unsigned codes, the first row's in the lowest bits."""
        rows = codes.reshape(self.blocks, self.words, self.rows_in_word, -1)
        total = np.zeros((*rows.shape[:2], rows.shape[3]), np.uint32)
        for place in range(self.rows_in_word):
            code = (rows[:, :, place].astype(np.int32) + (1 << (self.coding.bits - 1))).astype(np.uint32)
            total |= code << np.uint32(place * self.coding.bits)
        return total.view(np.int32)


def is_codable(plain: Packing) -> bool:
    """Whether there is code for a right factor that lies in memory like this, if it was quantised."""
    is_matrix = not plain.outer and len(plain.reduced) == 1 and plain.column.extent >= WIDEST_VECTOR
    return plain.value.dtype == "float32" and is_matrix and plain.together == 1


def plan_coding(plain: Packing, coding: Coding) -> CodedPacking:
    """How a right factor lies in memory that would lie there like this as numbers."""
    empty = CodedPacking(Tensor(plain.tensor.name, (0,), "int32"), plain, coding)
    size = len(plain.starts) * empty.blocks * empty.block_size
    return replace(empty, tensor=Tensor(plain.tensor.name, (size,), "int32"))
