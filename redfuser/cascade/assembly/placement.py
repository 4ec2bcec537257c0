"""One coordinate system for a cascade: where each definition's axes lie in it. No TVM.

The last reduction of a group (its *root*) lends its axes. What it loads is placed by substitution, what
loads the same results beside or below it by inverting the index it loads them at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from redfuser.cascade.assembly.expand import Expander, flatten_reduced
from redfuser.cascade.graph import Definition, Graph
from redfuser.expr import Axis, Expr, Load, axes_of, axis, index, loads, substitute
from redfuser.indexing import compose, coordinates, digits, invert, linear, replace, simplify
from redfuser.reason import Reason

Place = Mapping[Axis, Expr]


class NotPlaceable(Exception):
    """A definition has no place in the cascade's coordinates; carries the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


class Placement:
    """Places of the members of one group, in terms of the root's axes and the shared axis.

    Args:
        followers: reductions over the places of a list that a member selects; placed after it.
    """

    def __init__(
        self,
        graph: Graph,
        members: Sequence[str],
        shared: Axis,
        expander: Expander,
        followers: Sequence[str] = (),
    ) -> None:
        self.graph = graph
        self.members = tuple(members)
        self.followers = tuple(followers)
        self.folded: dict[str, Axis] = {}
        self.shared = shared
        self.expander = expander
        self.places: dict[str, dict[Axis, Expr]] = {}
        self.maps: dict[str, Expr] = {}
        root = graph.definitions[self.members[-1]]
        self.places[root.tensor.name] = {a: a for a in root.axes}
        for name in reversed(self.members):
            if name in self.places:
                self._pull(graph.definitions[name])
        for name in self.members:
            if name not in self.places:
                self._push(graph.definitions[name])
        for name in self.followers:
            self._follow(graph.definitions[name])

    def _pull(self, definition: Definition) -> None:
        """Write a placed member's map in the common coordinates, and place what it loads."""
        body = self.expander.body(definition)
        body = replace(body, self.places[definition.tensor.name] | flatten_reduced(definition, self.shared))
        self.maps[definition.tensor.name] = body
        for node in self.member_loads(body):
            if node.tensor.name == definition.tensor.name:
                continue
            axes = self.graph.definitions[node.tensor.name].axes
            where = dict(zip(axes, node.indices, strict=True))
            if self.places.setdefault(node.tensor.name, where) != where:
                raise NotPlaceable(Reason("misaligned", f"{node.tensor.name} is read at two places", str(node)))

    def _push(self, definition: Definition) -> None:
        where, _ = self.solve(definition)
        self.places[definition.tensor.name] = where
        self._pull(definition)

    def _follow(self, definition: Definition) -> None:
        """Place a reduction that folds the places of a list: its folded axis is the list's own."""
        name = definition.tensor.name
        ranks = {d.rank: self.places[m][d.rank] for m in self.members if (d := self.graph.definitions[m]).rank}
        wide = [a for a in definition.reduced if a.extent not in (0, 1)]
        if len(wide) != 1 or len(ranks) != 1 or not isinstance(rank := next(iter(ranks.values())), Axis):
            raise NotPlaceable(Reason("misaligned", "the places of a list are folded in parts", name))
        body = replace(self.expander.body(definition), {a: rank if a in wide else index(0) for a in definition.reduced})
        where, free = self._solve(definition, body)
        if any(a.extent not in (0, 1) for a in free):
            raise NotPlaceable(Reason("misaligned", f"{name} runs over another axis", str(free[0])))
        self.places[name], self.maps[name], self.folded[name] = where, replace(body, where), rank

    def solve(self, definition: Definition) -> tuple[dict[Axis, Expr], list[Axis]]:
        """Place a definition that loads placed members.

        Returns:
            Its axes in the common coordinates, and the axes that no member's index determines. An axis may be
            determined in part: it is then split into digits, and the undetermined digits are returned.

        Raises:
            NotPlaceable: the indices can't be inverted, or contradict each other.
        """
        return self._solve(definition, self.expander.body(definition))

    def _solve(
        self, definition: Definition, body: Expr, renamed: Mapping[Axis, Axis] | None = None
    ) -> tuple[dict[Axis, Expr], list[Axis]]:
        """As :meth:`solve`, of a ``body`` in which the definition's axes are ``renamed``."""
        own = {a: a for a in definition.axes} if renamed is None else renamed
        anchors = [n for n in self.member_loads(body) if n.tensor.name in self.places]
        parts = {a: digits([i for n in anchors for i in n.indices], own[a]) for a in definition.axes}
        split: dict[Expr, Expr] = {own[a]: compose(p) for a, p in parts.items() if p != (own[a],)}
        known: dict[Axis, Expr] = {}
        for node in anchors:
            indices = [replace(i, split) for i in node.indices]
            if any(self.shared in axes_of(i) or axes_of(i) & set(definition.reduced) for i in indices):
                raise NotPlaceable(Reason("misaligned", "a result is read along the axis it folds", str(node)))
            for source, value in self._invert(node, indices).items():
                if known.setdefault(source, value) != value:
                    raise NotPlaceable(Reason("misaligned", f"{source.name} has two places", str(node)))
        free = [d for p in parts.values() for d in p if d not in known]
        if renamed is None and not {a for value in known.values() for a in axes_of(value)}.isdisjoint(free):
            # Another definition's axis of the same name and extent, at which one of the places lies.
            apart = {a: axis(f"{a.name}'", a.extent) for a in definition.axes}
            return self._solve(definition, replace(body, apart), apart)
        where: dict[Axis, Expr] = {}
        for original, pieces in parts.items():
            where[original] = simplify(substitute(compose(pieces), known))
        return where, free

    def _invert(self, node: Load, indices: list[Expr]) -> dict[Axis, Expr]:
        sources = sorted({a for i in indices for a in axes_of(i)}, key=lambda a: a.name)
        solved = invert(indices, sources, node.tensor.shape)
        if solved is None:
            raise NotPlaceable(Reason("misaligned", "a result is read at an index that can't be inverted", str(node)))
        place = self.places[node.tensor.name]
        definition = self.graph.definitions[node.tensor.name]
        values: dict[Expr, Expr] = {
            c: place[a] for c, a in zip(coordinates(node.tensor.shape), definition.axes, strict=True)
        }
        return {source: replace(value, values) for source, value in solved.items()}

    def member_loads(self, expr: Expr) -> list[Load]:
        """Loads of members' and followers' results in an expression."""
        return [node for node in loads(expr) if node.tensor.name in self.members + self.followers]


def split_axes(axes: Iterable[Axis], exprs: Sequence[Expr]) -> dict[Axis, tuple[Axis, ...]]:
    """Digits of each axis as the expressions use it; axes of extent 1 have none."""
    return {a: tuple(d for d in digits(exprs, a) if d.extent not in (0, 1)) for a in axes}


def substitution(parts: Mapping[Axis, tuple[Axis, ...]]) -> dict[Axis, Expr]:
    """What to put for each axis, given its digits."""
    return {a: linear(compose(p)).expr() if p else index(0) for a, p in parts.items()}
