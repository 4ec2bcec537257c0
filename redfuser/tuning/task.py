"""A cascade that needs a schedule."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade


@dataclass(frozen=True)
class Task:
    """A cascade that needs a schedule.

    Args:
        name: of the kernel.
        cascade: canonical.
        precise: the same in the precision it is computed in.
        derivation: its verdict.
    """

    name: str
    cascade: Cascade
    precise: Cascade
    derivation: Derivation
