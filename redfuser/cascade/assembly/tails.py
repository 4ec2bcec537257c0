"""Takes a short tail off a concatenated axis: attention sinks. No TVM.

``softmax(concat(scores, sink))`` without its last column folds 41 elements where the product that follows folds 40.
Split into a head and a tail, every fold over the whole axis is a fold over the head, joined with the few elements of
the tail; what only reads the head reads nothing else. The graph is rewritten where then nothing reads the whole axis
any more, and left alone otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from redfuser.cascade.graph import Definition, Graph
from redfuser.expr import Axis, Const, Expr, Load, Op, Tensor, index, load, loads, op, substitute, transform
from redfuser.indexing import linear, simplify

#: more elements than this are no tail
LONGEST = 4
_JOIN = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}


@dataclass(frozen=True)
class _Part:
    """One side of a split axis: tensors read there go by ``name.suffix``."""

    suffix: str
    start: int
    extent: int


def split_tails(graph: Graph) -> Graph:
    """``graph`` with concatenations of a long and a very short piece taken apart."""
    for definition in graph.definitions.values():
        found = _concatenation(definition)
        if found is not None:
            graph = _split(graph, definition, *found) or graph
    return graph


def _concatenation(definition: Definition) -> tuple[Axis, int] | None:
    """The axis and the length of the head, if the body is ``tail if length <= axis else head``."""
    body = definition.body
    if definition.is_reduction or not isinstance(body, Op) or body.name != "select":
        return None
    test = body.args[0]
    if not isinstance(test, Op) or test.name != "le" or not isinstance(test.args[0], Const):
        return None
    place, length = test.args[1], test.args[0].value
    if not isinstance(place, Axis) or not isinstance(place.extent, int) or place not in definition.axes:
        return None
    return (place, int(length)) if 0 < place.extent - length <= LONGEST < length else None


def _split(graph: Graph, joined: Definition, axis: Axis, length: int) -> Graph | None:
    rewrite = _Rewrite(graph, axis.extent, (_Part("head", 0, length), _Part("tail", length, axis.extent - length)))
    rewrite.places[joined.tensor.name] = joined.axes.index(axis)
    for definition in graph.definitions.values():
        rewrite.visit(definition)
    whole = {name for name in rewrite.places if name in rewrite.definitions}
    definitions = _without_dead(rewrite.definitions, whole, graph.outputs)
    if rewrite.refused or not rewrite.is_cut or whole & definitions.keys():
        return None
    return replace(graph, definitions=definitions)


class _Rewrite:
    """The definitions of a graph, with both parts of every tensor that has the split axis.

    Attributes:
        places: which axis of a tensor is the split one.
        definitions: as rewritten so far.
        is_cut: whether something reads the head alone.
        refused: whether the axis goes through a reduction, whose part for the tail would be one more reduction.
    """

    def __init__(self, graph: Graph, extent: int, parts: tuple[_Part, _Part]) -> None:
        self.graph = graph
        self.extent = extent
        self.parts = parts
        self.places: dict[str, int] = {}
        self.definitions: dict[str, Definition] = {}
        self.refused = False
        self.is_cut = False

    def visit(self, definition: Definition) -> None:
        """Add a definition, or its parts, or what a fold over the whole axis becomes."""
        read = [node for node in loads(definition.body) if node.tensor.name in self.places]
        along = {node.indices[self.places[node.tensor.name]] for node in read}
        name = definition.tensor.name
        if name in self.places:
            self._add_parts(definition, definition.axes[self.places[name]])
        elif len(along) == 1 and isinstance(axis := next(iter(along)), Axis) and axis.extent == self.extent:
            if axis in definition.axes:
                self.refused |= definition.is_reduction
                self.places[name] = definition.axes.index(axis)
                self._add_parts(definition, axis)
            elif definition.reduced == (axis,) and definition.combiner in _JOIN:
                self._add_fold(definition, axis)
                return
        self._add(replace(definition, body=self._in_head(definition.body)))

    def _add(self, definition: Definition) -> None:
        self.definitions[definition.tensor.name] = definition

    def _add_parts(self, definition: Definition, axis: Axis) -> None:
        for part in self.parts:
            own = Axis(axis.dtype, f"{axis.name}.{part.suffix}", part.extent)
            axes = tuple(own if a == axis else a for a in definition.axes)
            shape = tuple(a.extent for a in axes)
            tensor = Tensor(f"{definition.tensor.name}.{part.suffix}", shape, definition.tensor.dtype)
            self._add(replace(definition, tensor=tensor, axes=axes, body=self._part(definition.body, axis, own, part)))

    def _add_fold(self, definition: Definition, axis: Axis) -> None:
        head, tail = self.parts
        own = Axis(axis.dtype, f"{axis.name}.head", head.extent)
        tensor = replace(definition.tensor, name=f"{definition.tensor.name}.head")
        self._add(replace(definition, tensor=tensor, reduced=(own,), body=self._part(definition.body, axis, own, head)))
        total: Expr = load(tensor, *definition.axes)
        for place in range(tail.extent):
            element = self._part(definition.body, axis, index(place), tail)
            total = op(_JOIN[definition.combiner], total, element)
        self._add(replace(definition, reduced=(), combiner="", body=total))

    def _part(self, body: Expr, axis: Axis, own: Expr, part: _Part) -> Expr:
        """``body`` within one part, at ``own`` counted from the part's start."""

        def rule(node: Expr) -> Expr:
            if isinstance(node, Load) and node.tensor.name in self.places:
                return self._read(node, part, own)
            return node

        inside = transform(body, rule)
        if isinstance(inside, Op) and inside.name == "select" and inside == body:
            inside = inside.args[1] if part.start else inside.args[2]
        where = own if not part.start else op("add", own, index(part.start))
        return simplify(substitute(inside, {axis: where}))

    def _read(self, node: Load, part: _Part, where: Expr) -> Load:
        place = self.places[node.tensor.name]
        shape = tuple(part.extent if n == place else e for n, e in enumerate(node.tensor.shape))
        tensor = Tensor(f"{node.tensor.name}.{part.suffix}", shape, node.dtype)
        return load(tensor, *(where if n == place else i for n, i in enumerate(node.indices)))

    def _in_head(self, body: Expr) -> Expr:
        """``body`` with loads that stay within the head reading that."""
        head = self.parts[0]

        def rule(node: Expr) -> Expr:
            if not isinstance(node, Load) or node.tensor.name not in self.places:
                return node
            where = node.indices[self.places[node.tensor.name]]
            if loads(where) or linear(where).bounds()[1] >= head.extent:
                return node
            self.is_cut = True
            return self._read(node, head, where)

        return transform(body, rule)


def _without_dead(
    definitions: Mapping[str, Definition], candidates: set[str], outputs: frozenset[str]
) -> dict[str, Definition]:
    """Without those of ``candidates``, and their parts, that nothing reads."""
    parts = {f"{name}.{suffix}" for name in candidates for suffix in ("head", "tail")}
    kept = dict(definitions)
    while True:
        read = {node.tensor.name for definition in kept.values() for node in loads(definition.body)}
        dead = [name for name in kept if name in candidates | parts and name not in read and name not in outputs]
        if not dead:
            return kept
        for name in dead:
            del kept[name]
