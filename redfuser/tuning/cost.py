"""Modelled time: a roofline over compulsory traffic and arithmetic. Always reported as modelled, never as measured."""

from __future__ import annotations

from redfuser.report.value import Traffic
from redfuser.targets import CpuTarget, Target


def modelled_us(traffic: Traffic, target: Target) -> float:
    """The time no kernel can beat on the target: the slower of memory and arithmetic, in microseconds."""
    peak = target.gflops if isinstance(target, CpuTarget) else target.peak_tflops * 1000
    memory = (traffic.read_bytes + traffic.write_bytes) / (target.bandwidth_gbs * 1e3)
    arithmetic = traffic.flops / (peak * 1e3)
    return round(max(memory, arithmetic), 3)
