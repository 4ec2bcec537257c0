"""Detection: from the graph of definitions to its cascades, and why the rest isn't one. No TVM."""

from __future__ import annotations

from dataclasses import replace

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.assembly.assemble import Assembler
from redfuser.cascade.assembly.frontier import Frontier, NotSeparable
from redfuser.cascade.assembly.placement import NotPlaceable
from redfuser.cascade.detection import Boundary, Detection, Rejected
from redfuser.cascade.graph import Graph
from redfuser.cascade.grouping import Grouping, group_reductions
from redfuser.cascade.kinds import classify
from redfuser.cascade.model import Cascade
from redfuser.cascade.order import Order
from redfuser.expr import PAIR, Expr, loads
from redfuser.extents import most
from redfuser.reason import Reason

#: Reasons that keep apart what is a chain of reductions all the same.
CHAINS = frozenset({"not-convex", "misaligned"})


def detect(graph: Graph) -> Detection:
    """Find the maximal cascades of a graph (METHOD §1; DESIGN "Detection")."""
    ancestry = Ancestry(graph)
    grouping = group_reductions(graph, ancestry)
    search = _Search(graph, ancestry, grouping)
    for members in grouping.groups:
        search.add(members, grouping.followers.get(members, ()))
    home = search.home
    boundaries = search.boundaries + [
        Boundary(home[earlier], _nodes(graph, (later,)), reason)
        for (earlier, later), reason in grouping.refused
        if earlier in home
    ]
    rejected = search.rejected + [
        Rejected(pair, _nodes(graph, pair), reason)
        for pair, reason in grouping.refused
        if pair[0] not in home and pair[1] not in home and reason.code in CHAINS
    ]
    return Detection(tuple(search.cascades), tuple(rejected), tuple(boundaries))


class _Search:
    """Makes cascades of groups. A group that can't be one is cut as late as it can be.

    Attributes:
        taken: definitions that the cascades so far make; no other one makes them again.
        hidden: those of them that aren't outputs.
    """

    def __init__(self, graph: Graph, ancestry: Ancestry, grouping: Grouping) -> None:
        self.graph = graph
        self.ancestry = ancestry
        self.grouping = grouping
        self.order = Order(graph)
        self.cascades: list[Cascade] = []
        self.rejected: list[Rejected] = []
        self.boundaries: list[Boundary] = []
        self.home: dict[str, str] = {}
        self.counts: dict[str, int] = {}
        self.taken: frozenset[str] = frozenset()
        self.hidden: frozenset[str] = frozenset()

    def add(self, members: tuple[str, ...], followers: tuple[str, ...] = ()) -> None:
        """Make one cascade of a group, or several, or say why there is none."""
        if len(members) == 1 and not followers and not _may_be_one(self.graph, members[0]):
            return
        try:
            self._keep(members, followers)
        except (NotPlaceable, NotSeparable) as refusal:
            if len(members) > 1 and not self._cut(members, refusal.reason):
                self.rejected.append(Rejected(members, _nodes(self.graph, members), refusal.reason))
        except AssertionError as broken:
            # A fault of ours; the model still compiles, unfused here.
            reason = Reason("inconsistent", str(broken))
            self.rejected.append(Rejected(members, _nodes(self.graph, members), reason))

    def _cut(self, members: tuple[str, ...], reason: Reason) -> bool:
        """Whether the first reductions of a group make cascades without the last ones, which then go on alone.

        What only the last ones held together falls apart: the norms of queries and keys, without their product. If no
        first ones do, the last ones may without the first: attention to scores above one that a selection found.
        """
        first = [(members[:size], members[size:]) for size in range(len(members) - 1, 0, -1)]
        last = [(members[size:], members[:size]) for size in range(1, len(members))]
        for together, rest in first + last:
            parts = self.grouping.linked(together)
            kept = [part for part in parts if self._try(part)]
            if kept:
                ends = [self.home[part[-1]] for part in kept]
                self.boundaries += [Boundary(end, _nodes(self.graph, rest), reason) for end in ends]
                for part in (*(part for part in parts if part not in kept), rest):
                    self.add(part)
                return True
        return False

    def _try(self, members: tuple[str, ...]) -> bool:
        """Whether reductions make a cascade, which is then kept."""
        try:
            return self._keep(members)
        except (NotPlaceable, NotSeparable, AssertionError):
            return False

    def _keep(self, members: tuple[str, ...], followers: tuple[str, ...] = ()) -> bool:
        """Assemble and name it, if it is a cascade: with what follows it; without, where that has no place in it."""
        try:
            cascade, frontier = self._assemble(members, followers)
        except (NotPlaceable, NotSeparable):
            if not followers:
                raise
            cascade, frontier = self._assemble(members, ())
        if not is_cascade(cascade):
            return False
        kind = classify(cascade)
        number = self.counts[kind] = self.counts.get(kind, -1) + 1
        self.cascades.append(replace(cascade, name=f"{kind}_{number}"))
        self.home |= dict.fromkeys(members, self.cascades[-1].name)
        self.order.add(cascade, frontier)
        self.taken |= frontier.inside
        self.hidden |= frontier.inside - {*frontier.outputs}
        return True

    def _assemble(self, members: tuple[str, ...], followers: tuple[str, ...]) -> tuple[Cascade, Frontier]:
        """The cascade, and how far it reaches: less far where it would wait for a cascade that waits for it."""
        for stays in (False, True):
            stop = self.taken | self._aside((*members, *followers)) if stays else self.taken
            assembler = Assembler(self.graph, self.ancestry, members, followers, stop, self.hidden)
            cascade = assembler.build("candidate")
            loop = self.order.loop(cascade, assembler.frontier)
            if loop is None:
                return cascade, assembler.frontier
        raise NotPlaceable(Reason("not-convex", "another cascade would run both before and after it", str(loop)))

    def _aside(self, members: tuple[str, ...]) -> frozenset[str]:
        """Definitions that need a reduction which no member needs."""
        needed = 0
        for member in members:
            needed |= self.ancestry.of[member]
        return frozenset(name for name in self.graph.definitions if self.ancestry.of[name] & ~needed)


def is_cascade(cascade: Cascade) -> bool:
    """At least two reductions, or one whose result is used on elements of the axis again: on all, or a selected one."""
    again = any(cascade.axis in output.axes or _gathers(cascade, output.value) for output in cascade.outputs)
    return len(cascade.reductions) + len(cascade.epilogues) > 1 or again


def _gathers(cascade: Cascade, value: Expr) -> bool:
    """Whether an element is read at a position that the cascade selects."""
    results = {reduction.result for reduction in cascade.reductions}
    return any(node.tensor in results for read in loads(value) for i in read.indices for node in loads(i))


def _may_be_one(graph: Graph, name: str) -> bool:
    """Whether a lone reduction may make a cascade: a cheap filter before the full analysis."""
    return graph.definitions[name].tensor.dtype == PAIR or _broadcasts_back(graph, name)


def _broadcasts_back(graph: Graph, name: str) -> bool:
    """Whether a lone reduction's result soon meets a larger tensor."""
    size = most(graph.definitions[name].tensor.size)
    if name in graph.outputs or not graph.definitions[name].reduced:
        return False
    pending, seen = [name], {name}
    while pending and len(seen) < 32:
        for user in graph.consumers.get(pending.pop(), ()):
            definition = graph.definitions[user]
            if definition.is_reduction or user in seen:
                continue
            if most(definition.tensor.size) > size:
                return True
            seen.add(user)
            pending.append(user)
    return False


def _nodes(graph: Graph, members: tuple[str, ...]) -> tuple[str, ...]:
    bindings = dict.fromkeys(graph.definitions[m].binding for m in members)
    return tuple(dict.fromkeys(node for b in bindings for node in graph.provenance.get(b, ())))
