"""How fast a CPU does what kernels are made of: nominal figures of a target, or measured on this machine."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.targets import CpuTarget

#: Vector instructions of each kind in a cycle of one core, and cycles of an exponential, nominally.
FMA_PER_CYCLE, SIMPLE_PER_CYCLE, EXP_CYCLES = 2.0, 1.0, 14.0
#: Bytes a core moves in a cycle out of its second-level cache, nominally; starting a parallel loop, in microseconds.
CACHE_BYTES_PER_CYCLE, LAUNCH_US = 24.0, 3.0


@dataclass(frozen=True)
class CpuRates:
    """Rates of one core, but for ``memory_gbs``.

    Args:
        multiply_add_ns: one vector multiply-add in a register tile of a matrix product.
        simple_ns: one vector addition on chip, its load and store included.
        exp_ns: one vector exponential on chip, likewise.
        cache_gbs: out of the second-level cache.
        memory_gbs: out of memory, all cores together.
        launch_us: a parallel loop that does nothing.
        measured: whether these are measurements.
    """

    multiply_add_ns: float
    simple_ns: float
    exp_ns: float
    cache_gbs: float
    memory_gbs: float
    launch_us: float
    measured: bool = False

    @staticmethod
    def nominal(target: CpuTarget) -> CpuRates:
        """What the target's description promises."""
        cycle = 1 / target.clock_ghz
        return CpuRates(
            multiply_add_ns=cycle / FMA_PER_CYCLE,
            simple_ns=cycle / SIMPLE_PER_CYCLE,
            exp_ns=cycle * EXP_CYCLES,
            cache_gbs=CACHE_BYTES_PER_CYCLE * target.clock_ghz,
            memory_gbs=target.bandwidth_gbs,
            launch_us=LAUNCH_US if target.cores > 1 else 0.0,
        )

    def __str__(self) -> str:
        how = "measured" if self.measured else "nominal"
        return (
            f"{how}: a vector multiply-add {self.multiply_add_ns:.3g} ns, addition {self.simple_ns:.3g} ns, "
            f"exponential {self.exp_ns:.3g} ns; cache {self.cache_gbs:.3g} GB/s a core, memory {self.memory_gbs:.3g} "
            f"GB/s; {self.launch_us:.3g} us to start a parallel loop"
        )
