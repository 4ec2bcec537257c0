"""How fast a CPU does what kernels are made of: nominal figures of a target, or measured on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

from redfuser.targets import CpuTarget

#: Vector instructions of each kind in a cycle of one core, and cycles of an exponential, nominally.
FMA_PER_CYCLE, SIMPLE_PER_CYCLE, EXP_CYCLES = 2.0, 1.0, 8.0
#: Bytes a core moves in a cycle out of its second-level cache, nominally; starting a parallel loop, in microseconds.
CACHE_BYTES_PER_CYCLE, LAUNCH_US = 36.0, 1.0


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

    def coarse(self, nominal: CpuRates) -> CpuRates:
        """Nominal rates, doubled or halved as often as brings them nearest to these ones.

        Two calibrations of one machine differ by some per cent, which must not change a ranking.
        """
        return CpuRates(
            multiply_add_ns=_stepped(self.multiply_add_ns, nominal.multiply_add_ns),
            simple_ns=_stepped(self.simple_ns, nominal.simple_ns),
            exp_ns=_stepped(self.exp_ns, nominal.exp_ns),
            cache_gbs=_stepped(self.cache_gbs, nominal.cache_gbs),
            memory_gbs=_stepped(self.memory_gbs, nominal.memory_gbs),
            launch_us=_stepped(self.launch_us, nominal.launch_us),
            measured=self.measured,
        )

    def __str__(self) -> str:
        how = "measured" if self.measured else "nominal"
        return (
            f"{how}: a vector multiply-add {self.multiply_add_ns:.3g} ns, addition {self.simple_ns:.3g} ns, "
            f"exponential {self.exp_ns:.3g} ns; cache {self.cache_gbs:.3g} GB/s a core, memory {self.memory_gbs:.3g} "
            f"GB/s; {self.launch_us:.3g} us to start a parallel loop"
        )


def _stepped(rate: float, nominal: float) -> float:
    return nominal * 2.0 ** round(log2(rate / nominal)) if rate > 0 and nominal > 0 else nominal
