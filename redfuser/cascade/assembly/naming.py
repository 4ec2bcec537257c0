"""The last step of assembling a cascade: everything under the cascade's own names, at its own axes. No TVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from redfuser.cascade.assembly.placement import NotPlaceable
from redfuser.cascade.assembly.producers import Producer
from redfuser.cascade.graph import Definition, Graph
from redfuser.cascade.model import Output, Reduction
from redfuser.expr import PAIR, Axis, Const, Expr, Load, Tensor, axes_of, axis, load, op, transform, walk
from redfuser.indexing import replace
from redfuser.reason import Reason


class Naming:
    """Replaces graph tensors of members and producers by the cascade's own, loaded at their own axes."""

    def __init__(self, graph: Graph, shared: Axis, split: Mapping[Axis, Expr], clean: Mapping[Expr, Expr]) -> None:
        self.graph = graph
        self.shared = shared
        self.split = split
        self.clean = clean
        self.results: dict[str, Expr] = {}

    def expr(self, value: Expr) -> Expr:
        """An expression in final names."""
        renamed = replace(replace(value, self.split), self.clean)

        def rule(node: Expr) -> Expr:
            if isinstance(node, Load) and node.tensor.name in self.results:
                return self.results[node.tensor.name]
            return node

        return transform(renamed, rule)

    def _axes(self, indices: Iterable[Expr], size: int, what: str) -> tuple[Axis, ...]:
        """The axes behind the indices of a tensor, whose elements they enumerate one by one."""
        found: dict[Axis, None] = {}
        for value in indices:
            for node in walk(self.expr(value)):
                if isinstance(node, Load):
                    raise NotPlaceable(Reason("not-affine", f"an index of {what} depends on data", str(node)))
                if isinstance(node, Axis):
                    found.setdefault(node)
        total = 1
        for a in found:
            total *= a.extent
        if total != size:
            raise NotPlaceable(Reason("misaligned", f"{what} isn't read at every element once"))
        return tuple(found)

    def producer(self, number: int, item: Producer) -> Reduction:
        """A tile-local contraction under the name ``dot<number>``."""
        contracted = axis(f"k{number}", item.over.extent)
        body = self.expr(replace(item.map, {item.over: contracted}))
        definition = self.graph.definitions[item.name]
        axes = self._axes(item.place.values(), definition.tensor.size, item.name)
        result = Tensor(f"dot{number}", tuple(a.extent for a in axes), definition.tensor.dtype)
        value: Expr = load(result, *axes)
        if item.scale != 1.0:
            value = op("mul", value, Const(value.dtype, item.scale))
        self.results[item.name] = value
        return Reduction(result, definition.combiner, axes, contracted, body)

    def reduction(self, number: int, member: str, place: Mapping[Axis, Expr], body: Expr) -> Reduction:
        """A member under the name of its combiner."""
        definition = self.graph.definitions[member]
        rank = None
        if definition.rank is not None:
            renamed = self.expr(place[definition.rank])
            if not isinstance(renamed, Axis):
                what = "the list in parts" if axes_of(renamed) else "one place of the list"
                raise NotPlaceable(Reason("misaligned", f"{what} that is selected is read", member))
            rank = renamed
        return self._folded(number, definition, place, body, self.shared, rank)

    def epilogue(self, number: int, name: str, place: Mapping[Axis, Expr], body: Expr, over: Axis) -> Reduction:
        """A follower, which folds the places ``over`` of a list."""
        renamed = self.expr(over)
        assert isinstance(renamed, Axis)
        return self._folded(number, self.graph.definitions[name], place, body, renamed, None)

    def _folded(
        self,
        number: int,
        definition: Definition,
        place: Mapping[Axis, Expr],
        body: Expr,
        over: Axis,
        rank: Axis | None,
    ) -> Reduction:
        name, combiner = definition.tensor.name, definition.combiner
        body = self.expr(body)
        axes = self._axes(place.values(), definition.tensor.size, name)
        prefix = "arg" if definition.tensor.dtype == PAIR and rank is None else ""
        result = Tensor(f"{prefix}{combiner}{number}", tuple(a.extent for a in axes), definition.tensor.dtype)
        self.results[name] = load(result, *axes)
        return Reduction(result, combiner, axes, over, body, rank)

    def output(self, name: str, value: Expr, place: Mapping[Axis, Expr]) -> Output:
        """What the rest of the model reads."""
        definition = self.graph.definitions[name]
        indices = tuple(self.expr(place[a]) for a in definition.axes)
        axes = self._axes(place.values(), definition.tensor.size, name)
        ordered = tuple(sorted(axes, key=lambda a: (a == self.shared, a.name)))
        return Output(definition.tensor, ordered, indices, self.expr(value))
