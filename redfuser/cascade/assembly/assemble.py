"""From a group of reductions to a :class:`~redfuser.cascade.model.Cascade` in clean coordinates. No TVM."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.assembly.expand import Expander, reduced_extent, stays_inside
from redfuser.cascade.assembly.frontier import NotSeparable, find_frontier
from redfuser.cascade.assembly.naming import Naming
from redfuser.cascade.assembly.placement import NotPlaceable, Placement, split_axes, substitution
from redfuser.cascade.assembly.producers import candidates, place_producers
from redfuser.cascade.graph import Definition, Graph
from redfuser.cascade.model import Cascade
from redfuser.expr import Axis, Expr, axes_of, axis, index, load, loads, op
from redfuser.extents import divide
from redfuser.indexing import linear, replace
from redfuser.reason import Reason

#: Every lane of a tile evaluates both sides of a condition.
GUARDED = "an element is read under a condition (padding, a concatenation): store the padded or joined tensor"


class _OutputRefused(NotPlaceable):
    """An output has no place; the cascade should end before it, where it can."""

    def __init__(self, name: str, reason: Reason) -> None:
        super().__init__(reason)
        self.name = name


class Assembler:
    """Builds the cascade of one group and what follows it; every step may refuse with a reason.

    Args:
        stop: definitions that it must not make.
        hidden: what other cascades make and keep to themselves: a view of it is read where they store the view.
    """

    def __init__(
        self,
        graph: Graph,
        ancestry: Ancestry,
        members: Sequence[str],
        followers: Sequence[str] = (),
        stop: Collection[str] = (),
        hidden: Collection[str] = (),
    ) -> None:
        self.graph = graph
        self.ancestry = ancestry
        self.members = tuple(members)
        self.followers = tuple(followers)
        self.hidden = hidden
        names = tuple(name for name in candidates(graph, ancestry, members, hidden) if name not in stop)
        self.shared = axis("l", reduced_extent(graph.definitions[members[-1]]))
        inside = [*members, *followers]
        plain = Expander(graph, ancestry, inside, hidden)
        refusals: set[str] = set()
        while True:
            try:
                self.frontier = find_frontier(graph, ancestry, inside, plain, refusals.union(stop))
                refused = self._place(names)
            except (_OutputRefused, NotSeparable) as refusal:
                if refusal.name in refusals or not plain.reaches(refusal.name):
                    raise
                refusals.add(refusal.name)
                continue
            if not refused:
                return
            names = tuple(name for name in names if name not in refused)

    def _place(self, names: Sequence[str]) -> frozenset[str]:
        """Place members, outputs and the candidate producers; the candidates that can't be are returned."""
        inside = [*self.members, *self.followers, *names]
        self.expander = Expander(self.graph, self.ancestry, inside, self.hidden)
        self.placement = Placement(self.graph, self.members, self.shared, self.expander, self.followers)
        for name, body in self.placement.maps.items():
            self._check_sources(name, body)
        guarded = {n.tensor.name for body in self.placement.maps.values() for n in loads(body) if not stays_inside(n)}
        if guarded := guarded.intersection(names):
            return frozenset(guarded)
        self.values = {name: self._output_value(self.graph.definitions[name]) for name in self.frontier.outputs}
        maps = [*self.placement.maps.values(), *(value for value, _ in self.values.values())]
        rows = {a for place in self.placement.places[self.members[0]].values() for a in axes_of(place)}
        self.producers, refused = place_producers(self.graph, names, self.shared, rows, maps, self.expander)
        return refused

    def _output_value(self, definition: Definition) -> tuple[Expr, dict[Axis, Expr]]:
        """An output's element and the place of its axes, in the common coordinates."""
        name = definition.tensor.name
        if name in self.placement.places:
            place = self.placement.places[name]
            return load(definition.tensor, *(place[a] for a in definition.axes)), dict(place)
        try:
            place, free = self.placement.solve(definition)
            free = [a for a in free if a.extent not in (0, 1)]
            if free:
                along = self._along_shared(free)
                place = {a: replace(value, along) for a, value in place.items()}
            value = replace(self.expander.body(definition), place)
            self._check_sources(name, value)
            if free and not self._reads_along(value):
                raise NotPlaceable(Reason("misaligned", f"{name} runs over another axis", str(free[0])))
            _check_bounds([value])
        except NotPlaceable as refusal:
            raise _OutputRefused(name, refusal.reason) from refusal
        return value, place

    def _check_sources(self, name: str, value: Expr) -> None:
        """Refuse what needs an intermediate of another operator, which memory doesn't hold."""
        inside = {*self.members, *self.expander.members}
        for node in loads(value):
            if node.tensor.name not in inside and node.tensor.name not in self.graph.stored:
                raise NotPlaceable(Reason("not-separable", f"{name} needs what isn't kept in memory", str(node)))

    def _along_shared(self, free: Sequence[Axis]) -> dict[Axis, Expr]:
        """The undetermined axes of an output as digits of the shared axis."""
        stride = self.shared.extent
        along: dict[Axis, Expr] = {}
        for part in free:
            rest = divide(stride, part.extent)
            if rest is None:
                raise NotPlaceable(Reason("misaligned", "an output's axes don't span the shared axis", str(part)))
            stride = rest
            digit = op("floormod", op("floordiv", self.shared, index(stride)), index(part.extent))
            along[part] = linear(digit).expr()
        if stride != 1:
            raise NotPlaceable(Reason("misaligned", "an output's axes don't span the shared axis", str(free[0])))
        return along

    def _reads_along(self, value: Expr) -> bool:
        """Whether the value reads an element that a member's map reads too, at the same place along the axis."""
        read = {n for body in self.placement.maps.values() for n in loads(body) if self.shared in axes_of(n)}
        return any(node in read for node in loads(value))

    def build(self, name: str) -> Cascade:
        """Rename everything into the cascade's own vocabulary.

        Raises:
            NotPlaceable: an index doesn't come out affine or a load may leave its tensor.
        """
        root = self.graph.definitions[self.members[-1]]
        everything = [
            *self.placement.maps.values(),
            *(value for value, _ in self.values.values()),
            *(i for _, place in self.values.values() for i in place.values()),
            *(i for place in self.placement.places.values() for i in place.values()),
            *(p.map for p in self.producers),
        ]
        parts = split_axes(root.axes, everything)
        used = self._row_digits(parts)
        clean: dict[Expr, Expr] = {self.shared: self.shared}
        rows: list[Axis] = []
        for pieces in parts.values():
            for piece in pieces:
                is_row = piece in used
                renamed = axis(f"{'i' if is_row else 'j'}{sum(1 for a in clean if a != self.shared)}", piece.extent)
                clean[piece] = renamed
                if is_row:
                    rows.append(renamed)
        naming = Naming(self.graph, self.shared, substitution(parts), clean)
        producers = tuple(naming.producer(k, p) for k, p in enumerate(self.producers))
        places, maps = self.placement.places, self.placement.maps
        reductions = tuple(naming.reduction(k, m, places[m], maps[m]) for k, m in enumerate(self.members))
        folded = self.placement.folded
        epilogues = tuple(
            naming.epilogue(len(reductions) + k, f, places[f], maps[f], folded[f]) for k, f in enumerate(self.followers)
        )
        outputs = tuple(naming.output(name, *self.values[name]) for name in self.frontier.outputs)
        items = (*producers, *reductions, *epilogues)
        own = {r.result for r in items}
        exprs = [*(r.map for r in items), *(o.value for o in outputs)]
        inputs = dict.fromkeys(n.tensor for e in exprs for n in loads(e) if n.tensor not in own)
        _check_bounds(exprs)
        cascade = Cascade(
            name, tuple(rows), self.shared, tuple(inputs), producers, reductions, outputs, self._onnx_nodes(), epilogues
        )
        cascade.verify()
        return cascade

    def _row_digits(self, parts: Mapping[Axis, tuple[Axis, ...]]) -> set[Axis]:
        """Digits of the root's axes that some other member keeps; all of them where the root stands alone."""
        if len(self.members) == 1:
            rank = self.graph.definitions[self.members[0]].rank
            return {d for a, p in parts.items() for d in p if a != rank}
        split = substitution(parts)
        places = [self.placement.places[m] for m in self.members[:-1]]
        return {a for place in places for value in place.values() for a in axes_of(replace(value, split))}

    def _onnx_nodes(self) -> tuple[str, ...]:
        order = list(self.graph.inputs_of)
        bindings = sorted(self.expander.used, key=order.index)
        return tuple(dict.fromkeys(node for b in bindings for node in self.graph.provenance.get(b, ())))


def _check_bounds(exprs: Iterable[Expr]) -> None:
    """Refuse loads that are only valid under a condition (padding): every lane of a tile evaluates both sides."""
    for expr in exprs:
        for node in loads(expr):
            if not stays_inside(node):
                raise NotPlaceable(Reason("guarded-load", GUARDED, str(node)))
