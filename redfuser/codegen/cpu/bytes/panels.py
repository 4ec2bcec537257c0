"""The right factor of a product of bytes in the order that AMX and VNNI read it. No TVM.

Panels of 16 columns; in a panel, four rows side by side: 64 bytes hold rows ``4q .. 4q+3`` of 16 columns, column by
column. Sixteen such lines make an AMX tile, one a VNNI vector. Rows that are missing at the end are zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

#: Columns of a panel, bytes summed at once for each of them, and rows of a tile.
COLUMNS, QUAD, ROWS = 16, 4, 16

#: Bytes of a row that one tile holds.
STEP = QUAD * ROWS


@dataclass(frozen=True)
class Panels:
    """How a matrix of ``depth`` × ``columns`` bytes is packed.

    Args:
        block: columns that are computed together, a multiple of 16 and no more than there are. The last block of
            columns, in whole panels, is moved back so that it ends with the matrix.
    """

    depth: int
    columns: int
    block: int

    def __post_init__(self) -> None:
        if self.block % COLUMNS or not COLUMNS <= self.block <= self.columns:
            raise ValueError(f"blocks of {self.block} of {self.columns} columns aren't panels of {COLUMNS}")

    @property
    def steps(self) -> int:
        """Tiles of a panel, one below the other."""
        return -(-self.depth // STEP)

    @property
    def starts(self) -> tuple[int, ...]:
        """First column of every panel."""
        whole = self.columns // self.block * self.block
        rest = -(-(self.columns - whole) // COLUMNS) * COLUMNS
        return (*range(0, whole, COLUMNS), *range(self.columns - rest, self.columns, COLUMNS))

    @property
    def panel_bytes(self) -> int:
        """Bytes of one panel."""
        return self.steps * STEP * COLUMNS

    @property
    def size(self) -> int:
        """Bytes of all panels."""
        return len(self.starts) * self.panel_bytes

    def pack(self, matrix: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """A matrix packed, flat."""
        padded = np.zeros((self.steps * STEP, self.columns), matrix.dtype)
        padded[: self.depth] = matrix
        lines = padded.reshape(-1, QUAD, self.columns)
        panels = [lines[:, :, start : start + COLUMNS].transpose(0, 2, 1) for start in self.starts]
        return np.stack(panels).reshape(-1)
