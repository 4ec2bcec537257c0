"""The space of a cascade, whatever the target."""

from __future__ import annotations

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.errors import UnsupportedTargetError
from redfuser.targets import CpuTarget, Target
from redfuser.tuning.spaces.space import Space


def space_of(cascade: Cascade, derivation: Derivation, target: Target) -> Space:
    """The space of one canonical cascade in the precision it is computed in.

    Raises:
        UnsupportedTargetError: no space is known for such targets.
    """
    if isinstance(target, CpuTarget):
        from redfuser.tuning.spaces.cpu import cpu_space

        return cpu_space(cascade, derivation, target)
    raise UnsupportedTargetError(f"{target.name} can't be tuned for in this version", "tune for a CPU target")
