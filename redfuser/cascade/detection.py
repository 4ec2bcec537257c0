"""What was found in one model. No TVM."""

from __future__ import annotations

from dataclasses import dataclass

from redfuser.cascade.model import Cascade
from redfuser.reason import Reason


@dataclass(frozen=True)
class Rejected:
    """Reductions that depend on each other over one axis, but were not made a cascade."""

    members: tuple[str, ...]
    onnx_nodes: tuple[str, ...]
    reason: Reason

    def __str__(self) -> str:
        return f"rejected {', '.join(self.members)}: {self.reason}"


@dataclass(frozen=True)
class Boundary:
    """A reduction that uses a cascade's result and still isn't part of it: where the cascade ends, and why."""

    cascade: str
    onnx_nodes: tuple[str, ...]
    reason: Reason

    def __str__(self) -> str:
        return f"boundary of {self.cascade} before {', '.join(self.onnx_nodes)}: {self.reason}"


@dataclass(frozen=True)
class Detection:
    """What was found in one model.

    Args:
        cascades: disjoint, in graph order.
        rejected: groups that form a chain but can't be cut out of the model as one kernel.
        boundaries: where cascades end although a dependent reduction follows.
    """

    cascades: tuple[Cascade, ...]
    rejected: tuple[Rejected, ...] = ()
    boundaries: tuple[Boundary, ...] = ()

    def __str__(self) -> str:
        return "\n".join(map(str, (*self.cascades, *self.rejected, *self.boundaries)))
