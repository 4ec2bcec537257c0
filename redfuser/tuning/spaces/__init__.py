"""The space of a cascade, whatever the target."""

from __future__ import annotations

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.options import Fp32
from redfuser.targets import CpuTarget, Target
from redfuser.tuning.spaces.space import Space


def space_of(cascade: Cascade, derivation: Derivation, target: Target, fp32: Fp32 = "tf32") -> Space:
    """The space of one canonical cascade in the precision it is computed in.

    Args:
        fp32: how a GPU multiplies matrices of float32.
    """
    if isinstance(target, CpuTarget):
        from redfuser.tuning.spaces.cpu import cpu_space

        return cpu_space(cascade, derivation, target)
    from redfuser.tuning.spaces.gpu import gpu_space

    return gpu_space(cascade, derivation, target, fp32)
