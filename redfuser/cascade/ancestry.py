"""Who depends on whom, as bit sets: the test that a set of reductions is convex. No TVM.

Only *solid* nodes count: reductions and opaque bindings. Element-wise definitions between them can be
recomputed anywhere, so they never stand in the way of fusing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from redfuser.cascade.graph import Graph
from redfuser.expr import loads


class Ancestry:
    """Ancestors of every tensor of a graph, computed once, linear in its edges.

    Attributes:
        names: the solid nodes in graph order; ``bit`` is the position of each.
        of: tensor -> set of solid nodes it depends on, itself included.
        readers: tensor -> set of solid nodes that load it directly, or what is made of its elements alone (a cast).
    """

    def __init__(self, graph: Graph) -> None:
        self.names: list[str] = []
        self.bit: dict[str, int] = {}
        self.of: dict[str, int] = {}
        self.readers: dict[str, int] = {}
        self._graph = graph
        by_binding: dict[str, list[str]] = {}
        for name, definition in graph.definitions.items():
            by_binding.setdefault(definition.binding, []).append(name)
        for binding, inputs in graph.inputs_of.items():
            if binding not in by_binding:
                self._add(binding, inputs, solid=True)
            for name in by_binding.get(binding, ()):
                self._add(name, graph.sources[name], solid=graph.definitions[name].is_reduction)

    def _add(self, name: str, inputs: Iterable[str], solid: bool) -> None:
        sources = tuple(inputs)
        mask = 0
        for source in sources:
            mask |= self.of.get(source, 0)
        if solid:
            own = 1 << len(self.names)
            self.bit[name] = len(self.names)
            self.names.append(name)
            mask |= own
            for source in sources:
                self._read(source, own)
        self.of[name] = mask
        self.readers.setdefault(name, 0)

    def _read(self, source: str, own: int) -> None:
        """Note a reader of a tensor, and of what that is made of, as far as it is made of one element of one tensor."""
        while True:
            self.readers[source] = self.readers.get(source, 0) | own
            definition = self._graph.definitions.get(source)
            if definition is None or definition.is_reduction or len(read := set(loads(definition.body))) != 1:
                return
            source = read.pop().tensor.name

    def mask(self, names: Iterable[str]) -> int:
        """The bit set of some solid nodes."""
        result = 0
        for name in names:
            result |= 1 << self.bit[name]
        return result

    def depends(self, name: str, members: Collection[str]) -> bool:
        """Whether ``name`` depends on any of ``members``, by any path."""
        return bool(self.of.get(name, 0) & self.mask(members))

    def detour(self, members: Collection[str], end: str = "") -> str | None:
        """A solid node outside ``members`` on a path from one of them to another, or to ``end``; None if none is."""
        inside = self.mask(members)
        first = min(self.bit[name] for name in members)
        above = self.of[end] if end else 0
        for name in members:
            above |= self.of[name]
        candidates = (above & ~inside) >> first
        position = first
        while candidates:
            step = (candidates & -candidates).bit_length()
            position += step
            candidates >>= step
            name = self.names[position - 1]
            if self.of[name] & inside:
                return name
        return None
