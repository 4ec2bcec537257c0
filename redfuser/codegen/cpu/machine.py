"""What lowering needs to know of a processor."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.targets import CpuTarget
from redfuser.tile.ir import Schedule

#: What a cache reads and writes at once.
LINE_BYTES = 64


@dataclass(frozen=True)
class Machine:
    """Vector registers of a processor, and the choices that follow from them.

    Args:
        vector_bits: width of one register.
        registers: how many there are.
        cache_bytes: second-level cache of one core.
        vectors: width of a register tile in registers.
        multiplies_bytes: whether products of bytes are taken out as blocks.
        has_vnni: whether it has VNNI for them, else AVX2.
        has_tiles: whether it has AMX besides.
        has_nontemporal: whether vectors can be written past the caches.
        last_level_bytes: the last cache before memory, which cores may share.
    """

    vector_bits: int
    registers: int
    cache_bytes: int
    vectors: int
    multiplies_bytes: bool = False
    has_vnni: bool = False
    has_tiles: bool = False
    has_nontemporal: bool = False
    last_level_bytes: int = 0

    @staticmethod
    def of(target: CpuTarget, schedule: Schedule | None = None) -> Machine:
        """The machine behind a target.

        Args:
            schedule: its option ``vectors`` is the width of register tiles; without it they are as wide as leaves
                room for six rows.
        """
        registers = target.level.registers
        options = dict(schedule.options) if schedule is not None else {}
        vectors = options.get("vectors", widest_tile(registers))
        cache = target.l2_kb * 1024
        abilities = (target.multiplies_bytes, target.has_vnni, target.has_tiles, target.has_nontemporal)
        return Machine(target.vector_bits, registers, cache, vectors, *abilities, target.l3_kb * 1024)

    @property
    def lanes(self) -> int:
        """float32 elements of one register. Vectors of wider types have as many, in two registers."""
        return self.vector_bits // 32

    @property
    def scales(self) -> bool:
        """Whether an instruction multiplies by a power of two, which makes an exponential short."""
        return self.vector_bits >= 512

    def chunk(self, points: int) -> int:
        """How many of ``points`` consecutive points are handled at once: as many as a register tile is wide.

        A few points more than that are cut into even parts rather than into a full one and a small rest.
        """
        width = self.lanes * self.vectors
        if points <= width:
            return points
        parts = -(-points // width)
        return width if parts > 4 else -(-points // (parts * self.lanes)) * self.lanes

    def rows(self, vectors: int) -> int:
        """Rows of a register tile that is ``vectors`` wide: accumulators, one row of operands and a broadcast fit."""
        return max(min((self.registers - vectors - 2) // vectors, 14), 1)


def widest_tile(registers: int) -> int:
    """Width in vectors of the widest register tile that still has six rows."""
    return 4 if registers >= 32 else 2
