"""Modelled time. Always reported as modelled, never as measured.

A roofline over compulsory traffic, which no kernel can beat; and :mod:`redfuser.tuning.costs.cpu` and
:mod:`redfuser.tuning.costs.gpu`, which tell the candidates of one cascade apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from redfuser.expr import index
from redfuser.report.value import Traffic
from redfuser.targets import CpuTarget, Target
from redfuser.tile.coverage import distance
from redfuser.tile.ir import Schedule, Stream
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN

#: What skipping leaves of a stream under a causal mask.
LEFT_BY_SKIPPING = 0.55
#: What remains visible of work that goes on beside something longer.
EXPOSED = 0.1


@dataclass(frozen=True)
class Cost:
    """Where a program's modelled time goes, in microseconds.

    Args:
        launch: starting phases; merging segments is a phase of its own.
        arithmetic: vector instructions of the core that has most to do.
        cache: traffic beyond registers of that core.
        memory: traffic out of memory, all cores together.
        memory_bytes: that traffic, re-reads included.
    """

    launch: float
    arithmetic: float
    cache: float
    memory: float
    memory_bytes: int

    @staticmethod
    def total(parts: Sequence[Cost]) -> Cost:
        """Of phases that run one after another."""
        return Cost(
            launch=sum(part.launch for part in parts),
            arithmetic=sum(part.arithmetic for part in parts),
            cache=sum(part.cache for part in parts),
            memory=sum(part.memory for part in parts),
            memory_bytes=sum(part.memory_bytes for part in parts),
        )

    @property
    def us(self) -> float:
        """All of it; what overlaps with something longer counts in part."""
        shorter, longer = sorted((self.arithmetic + self.cache, self.memory))
        return self.launch + longer + EXPOSED * shorter

    def __str__(self) -> str:
        return (
            f"{self.us:.4g} us: launch {self.launch:.3g}, arithmetic {self.arithmetic:.4g}, cache {self.cache:.4g}; "
            f"memory {self.memory:.4g} ({self.memory_bytes:,} bytes)"
        )


def stream_length(stream: Stream, schedule: Schedule) -> float:
    """Points that a stream runs over."""
    if (stream.start, stream.stop) == (index(0), index(stream.axis.extent)):
        return stream.axis.extent
    length = distance(stream)
    if length is not None:
        return min(length, stream.axis.extent)
    skipped = LEFT_BY_SKIPPING if dict(schedule.options).get(SKIP_HIDDEN) else 1.0
    return stream.axis.extent * skipped / schedule.segments


def modelled_us(traffic: Traffic, target: Target) -> float:
    """The time no kernel can beat on the target: the slower of memory and arithmetic, in microseconds."""
    peak = target.gflops if isinstance(target, CpuTarget) else target.peak_tflops * 1000
    memory = (traffic.read_bytes + traffic.write_bytes) / (target.bandwidth_gbs * 1e3)
    arithmetic = traffic.flops / (peak * 1e3)
    return round(max(memory, arithmetic), 3)
