"""Whether the cascades of a model can run one after the other. No TVM.

Each cascade is one kernel: it starts when all that it reads is there, and what it makes is there when it ends. Two
cascades can each be convex and still wait for each other, when each takes over an operation that reads the other.
"""

from __future__ import annotations

from redfuser.cascade.assembly.frontier import Frontier
from redfuser.cascade.graph import Graph
from redfuser.cascade.model import Cascade


class Order:
    """What each stored tensor waits for, with the cascades so far as kernels."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._maker: dict[str, tuple[str, ...]] = {}

    def add(self, cascade: Cascade, frontier: Frontier) -> None:
        """Let a cascade make its outputs from now on."""
        inputs = _inputs(cascade)
        self._maker |= dict.fromkeys(frontier.outputs, inputs)

    def loop(self, cascade: Cascade, frontier: Frontier) -> str | None:
        """A tensor that the cascade would make and, through other cascades, waits for; None if there is none."""
        seen: set[str] = set()
        pending = list(_inputs(cascade))
        while pending:
            name = pending.pop()
            if name in frontier.outputs:
                return name
            if name not in seen:
                seen.add(name)
                pending += self._sources(name)
        return None

    def _sources(self, name: str) -> tuple[str, ...]:
        if name in self._maker:
            return self._maker[name]
        definition = self.graph.definitions.get(name)
        if definition is None:
            return self.graph.inputs_of.get(name, ())
        return self.graph.sources[name]


def _inputs(cascade: Cascade) -> tuple[str, ...]:
    return tuple(tensor.name for tensor in cascade.inputs)
