"""Detection: from the graph of definitions to its cascades, and why the rest isn't one. No TVM."""

from __future__ import annotations

from dataclasses import dataclass, replace

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.assembly.assemble import Assembler
from redfuser.cascade.assembly.frontier import NotSeparable
from redfuser.cascade.assembly.placement import NotPlaceable
from redfuser.cascade.graph import Graph
from redfuser.cascade.grouping import group_reductions
from redfuser.cascade.kinds import classify
from redfuser.cascade.model import Cascade
from redfuser.expr import PAIR, Expr, loads
from redfuser.extents import most
from redfuser.reason import Reason

#: Reasons that keep apart what is a chain of reductions all the same.
CHAINS = frozenset({"not-convex", "misaligned"})


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


def detect(graph: Graph) -> Detection:
    """Find the maximal cascades of a graph (METHOD §1; DESIGN "Detection")."""
    ancestry = Ancestry(graph)
    grouping = group_reductions(graph, ancestry)
    search = _Search(graph, ancestry)
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
    """Makes cascades of groups. A group that can't be one is cut as late as it can be."""

    def __init__(self, graph: Graph, ancestry: Ancestry) -> None:
        self.graph = graph
        self.ancestry = ancestry
        self.cascades: list[Cascade] = []
        self.rejected: list[Rejected] = []
        self.boundaries: list[Boundary] = []
        self.home: dict[str, str] = {}
        self.counts: dict[str, int] = {}

    def add(self, members: tuple[str, ...], followers: tuple[str, ...] = ()) -> None:
        """Make one cascade of a group, or several, or say why there is none."""
        if len(members) == 1 and not followers and not _may_be_one(self.graph, members[0]):
            return
        try:
            cascade = _assemble(self.graph, self.ancestry, members, followers)
        except (NotPlaceable, NotSeparable) as refusal:
            if len(members) > 1 and not self._cut(members, refusal.reason):
                self.rejected.append(Rejected(members, _nodes(self.graph, members), refusal.reason))
        except AssertionError as broken:
            # A fault of ours; the model still compiles, unfused here.
            reason = Reason("inconsistent", str(broken))
            self.rejected.append(Rejected(members, _nodes(self.graph, members), reason))
        else:
            self._keep(cascade, members)

    def _cut(self, members: tuple[str, ...], reason: Reason) -> bool:
        """Whether the first reductions of a group make a cascade without the last ones, which then go on alone."""
        for size in range(len(members) - 1, 0, -1):
            head, rest = members[:size], members[size:]
            try:
                kept = self._keep(_assemble(self.graph, self.ancestry, head, ()), head)
            except (NotPlaceable, NotSeparable, AssertionError):
                continue
            if kept:
                self.boundaries.append(Boundary(self.home[head[-1]], _nodes(self.graph, rest), reason))
                self.add(rest)
                return True
        return False

    def _keep(self, cascade: Cascade, members: tuple[str, ...]) -> bool:
        """Name it, if it is a cascade."""
        if not is_cascade(cascade):
            return False
        kind = classify(cascade)
        number = self.counts[kind] = self.counts.get(kind, -1) + 1
        self.cascades.append(replace(cascade, name=f"{kind}_{number}"))
        self.home |= dict.fromkeys(members, self.cascades[-1].name)
        return True


def is_cascade(cascade: Cascade) -> bool:
    """At least two reductions, or one whose result is used on elements of the axis again: on all, or a selected one."""
    again = any(cascade.axis in output.axes or _gathers(cascade, output.value) for output in cascade.outputs)
    return len(cascade.reductions) + len(cascade.epilogues) > 1 or again


def _gathers(cascade: Cascade, value: Expr) -> bool:
    """Whether an element is read at a position that the cascade selects."""
    results = {reduction.result for reduction in cascade.reductions}
    return any(node.tensor in results for read in loads(value) for i in read.indices for node in loads(i))


def _assemble(graph: Graph, ancestry: Ancestry, members: tuple[str, ...], followers: tuple[str, ...]) -> Cascade:
    """The cascade with what follows it; without, where that has no place in it."""
    try:
        return Assembler(graph, ancestry, members, followers).build("candidate")
    except (NotPlaceable, NotSeparable):
        if not followers:
            raise
    return Assembler(graph, ancestry, members).build("candidate")


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
