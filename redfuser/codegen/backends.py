"""Which back end a target has: the one place that tells CPUs from GPUs."""

from __future__ import annotations

from redfuser.codegen.backend import Backend
from redfuser.options import Fp32
from redfuser.targets import CpuTarget, Target


def backend_for(target: Target, fp32: Fp32 = "tf32") -> Backend:
    """The back end of a target.

    Args:
        fp32: how a GPU multiplies matrices of float32.
    """
    if isinstance(target, CpuTarget):
        from redfuser.codegen.cpu.backend import CpuBackend

        return CpuBackend(target)
    from redfuser.codegen.gpu.backend import GpuBackend

    return GpuBackend(target, fp32)
