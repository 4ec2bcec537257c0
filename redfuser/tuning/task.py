"""A cascade that needs a schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade

if TYPE_CHECKING:
    from redfuser.codegen.excerpt import Excerpt


@dataclass(frozen=True)
class Task:
    """A cascade that needs a schedule.

    Args:
        name: of the kernel.
        cascade: canonical.
        precise: the same in the precision it is computed in.
        derivation: its verdict.
        part: makes the part of the model that computes it, unfused; absent where there is no model.
        left: cascades of the compile that still need a schedule, this one included: they share the time left.
    """

    name: str
    cascade: Cascade
    precise: Cascade
    derivation: Derivation
    part: Callable[[], Excerpt] | None = None
    left: int = 1
