"""Which reductions belong together: maximal convex sets linked by dependence over one shared axis. No TVM.

Reduction R depends on R' *by row* when R's map loads R' at an index free of R's own reduced axis: the
value of R' is one number for the whole fold. Both then belong to one cascade if they fold the same number of
elements, read a common element at the same place along the axis, and no other reduction lies on a path between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.assembly.expand import Expander, flatten_reduced, reduced_extent
from redfuser.cascade.dependence import row_dependencies
from redfuser.cascade.graph import Definition, Graph
from redfuser.cascade.products import are_scores, folds_as_much, is_weight_product
from redfuser.expr import Axis, Expr, axes_of, axis, loads
from redfuser.indexing import replace
from redfuser.reason import Reason

#: Why a product of two tensors stands apart from the norms of both.
CROSSED = Reason(
    "crossed-rows", "results of different rows meet: each would be folded again for every row of the other"
)
#: Why a product stands apart from the norm of one operand, where what follows computes it on its tiles.
SCORES = Reason("tile-local", "a cascade over another axis computes this product on its tiles, and never stores it")


@dataclass
class Grouping:
    """The groups found, each in graph order, and why some links were not made.

    Args:
        followers: group -> reductions over the places of a list that the group selects, in graph order.
        links: pairs of an earlier and a later reduction by which groups hold together.
    """

    groups: list[tuple[str, ...]]
    followers: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    refused: list[tuple[tuple[str, str], Reason]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)

    def linked(self, members: Sequence[str]) -> list[tuple[str, ...]]:
        """The parts of a group's ``members`` that still hold together without its others, each in their order."""
        parts: list[set[str]] = [{member} for member in members]
        for earlier, later in self.links:
            joined = [part for part in parts if earlier in part or later in part]
            if len(joined) > 1:
                parts = [part for part in parts if part not in joined] + [set().union(*joined)]
        ordered = [tuple(member for member in members if member in part) for part in parts]
        return sorted(ordered, key=lambda part: members.index(part[0]))


def group_reductions(graph: Graph, ancestry: Ancestry) -> Grouping:
    """Group every reduction of the graph; lone reductions form groups of one."""
    owner: dict[str, list[str]] = {}
    result = Grouping([])
    for name, definition in graph.definitions.items():
        if not definition.is_reduction:
            continue
        owner[name] = [name]
        sources = row_dependencies(graph, ancestry, definition)
        if _cross(sources.values()):
            result.refused += [((source, name), CROSSED) for source in sources]
            continue
        normalised = [s for s in sources if folds_as_much(graph.definitions[s], definition)]
        if normalised and are_scores(graph, ancestry, definition, normalised):
            result.refused += [((source, name), SCORES) for source in normalised]
            continue
        for source in sources:
            if owner[source] is owner[name]:
                result.links.append((source, name))
                continue
            merged = sorted({*owner[source], *owner[name]}, key=ancestry.bit.__getitem__)
            reason = _refusal(graph, ancestry, definition, graph.definitions[source], merged)
            if reason is None:
                result.links.append((source, name))
                for member in merged:
                    owner[member] = merged
            elif reason.code != "different-extent":
                result.refused.append(((source, name), reason))
    result.groups = list(dict.fromkeys(tuple(group) for group in owner.values()))
    return follow(graph, ancestry, result)


def follow(graph: Graph, ancestry: Ancestry, grouping: Grouping) -> Grouping:
    """Let reductions that only fold the places of another group's list follow that group instead of their own.

    Of a group that goes on to something else, such as the weighted sum of what experts make, the first ones do.
    """
    home = {name: group for group in grouping.groups for name in group}
    counts = {d.rank.extent for name in home if (d := graph.definitions[name]).rank is not None}
    followers: dict[tuple[str, ...], tuple[str, ...]] = {}
    groups: list[tuple[str, ...]] = []
    for group in grouping.groups:
        taken = 0
        if reduced_extent(graph.definitions[group[0]]) in counts:
            folded = [_lists_folded(graph, graph.definitions[name]) for name in group]
            leader = _leader(home, group, folded)
            if leader is not None:
                before = [*leader, *followers.get(leader, ())]
                fits = [n for n in range(1, len(group) + 1) if ancestry.detour([*before, *group[:n]]) is None]
                taken = max((n for n in fits if all(folded[:n])), default=0)
                followers[leader] = (*before[len(leader) :], *group[:taken])
        if taken < len(group):
            groups.append(group[taken:])
    return Grouping(
        groups, {leader: names for leader, names in followers.items() if names}, grouping.refused, grouping.links
    )


def _leader(
    home: Mapping[str, tuple[str, ...]], group: tuple[str, ...], folded: Sequence[tuple[str, ...]]
) -> tuple[str, ...] | None:
    """The one group whose lists the reductions of ``group`` fold; none if there are several, or it is their own."""
    leaders = {home[source] for sources in folded for source in sources}
    return leaders.pop() if len(leaders) == 1 and group not in leaders else None


def _lists_folded(graph: Graph, definition: Definition) -> tuple[str, ...]:
    """Lists of which a reduction folds the places, read through element-wise definitions."""
    found: dict[str, None] = {}
    seen: set[tuple[str, frozenset[int]]] = set()
    pending: list[tuple[Expr, frozenset[Axis]]] = [(definition.body, frozenset(definition.reduced))]
    while pending:
        body, folded = pending.pop()
        for node in loads(body):
            touched = frozenset(k for k, i in enumerate(node.indices) if axes_of(i) & folded)
            source = graph.definitions.get(node.tensor.name)
            if source is None or (node.tensor.name, touched) in seen or not touched:
                continue
            seen.add((node.tensor.name, touched))
            if not source.is_reduction:
                pending.append((source.body, frozenset(source.axes[k] for k in touched)))
            elif source.rank is not None and touched == {len(source.axes) - 1}:
                found.setdefault(source.tensor.name)
    return tuple(found)


def _cross(rows: Iterable[frozenset[Axis]]) -> bool:
    """Whether two results keep rows that neither has all of: those of queries and keys, in their product."""
    kept = list(rows)
    return any(not (a <= b or b <= a) for a, b in combinations(kept, 2))


def _refusal(
    graph: Graph, ancestry: Ancestry, later: Definition, earlier: Definition, merged: list[str]
) -> Reason | None:
    """Why two dependent reductions can't share a cascade; None if they can."""
    if not folds_as_much(earlier, later):
        return Reason("different-extent", "the reductions fold different numbers of elements")
    detour = ancestry.detour(merged)
    members = [name for name in merged if name != later.tensor.name]
    expander = Expander(graph, ancestry, members)
    shared = axis("l", reduced_extent(later))
    body = replace(expander.body(later), flatten_reduced(later, shared))
    where = _position(body, earlier)
    if where is not None:
        other = replace(expander.body(earlier), {**where, **flatten_reduced(earlier, shared)})
        if not _common(body, other, shared):
            return Reason("no-shared-element", "the maps read no common element along the axis")
    if detour is not None:
        return Reason("not-convex", "another reduction lies between the two", f"{earlier.tensor.name} -> {detour}")
    if where is None:
        return Reason("misaligned", "an earlier result is read at several places of the same row")
    if is_weight_product(graph, body, shared, set(axes_of(body)) - {shared}):
        return Reason(
            "weight-product",
            "a matrix product with a constant weight is faster as a packed GEMM of its own",
            later.tensor.name,
        )
    return None


def _position(body: Expr, earlier: Definition) -> dict[Axis, Expr] | None:
    places = {node.indices for node in loads(body) if node.tensor == earlier.tensor}
    if len(places) != 1:
        return None
    return dict(zip(earlier.axes, places.pop(), strict=True))


def _common(body: Expr, other: Expr, shared: Axis) -> bool:
    """Whether both maps read an element at the same place along the axis."""
    mine = {node for node in loads(body) if shared in axes_of(node)}
    return any(node in mine for node in loads(other))
