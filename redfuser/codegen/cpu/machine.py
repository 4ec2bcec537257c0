"""What lowering needs to know of a processor."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.targets import CpuTarget


@dataclass(frozen=True)
class Machine:
    """Vector registers of a processor, and the choices that follow from them.

    Args:
        vector_bits: width of one register.
        registers: how many there are.
        cache_bytes: second-level cache of one core.
    """

    vector_bits: int
    registers: int
    cache_bytes: int

    @staticmethod
    def of(target: CpuTarget) -> Machine:
        """The machine behind a target: AVX-512 has 32 registers, everything before it 16."""
        return Machine(target.vector_bits, 32 if target.vector_bits >= 512 else 16, target.l2_kb * 1024)

    @property
    def lanes(self) -> int:
        """float32 elements of one register. Vectors of wider types have as many, in two registers."""
        return self.vector_bits // 32

    def chunk(self, points: int) -> int:
        """How many of ``points`` consecutive points are handled at once: as many as a register tile is wide.

        A few points more than that are cut into even parts rather than into a full one and a small rest.
        """
        width = self.lanes * (4 if self.registers >= 32 else 2)
        if points <= width:
            return points
        parts = -(-points // width)
        return width if parts > 4 else -(-points // (parts * self.lanes)) * self.lanes

    def rows(self, vectors: int) -> int:
        """Rows of a register tile that is ``vectors`` wide: accumulators, one row of operands and a broadcast fit."""
        return max(min((self.registers - vectors - 2) // vectors, 14), 1)
