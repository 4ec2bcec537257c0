"""Inlining of element-wise definitions into one expression. No TVM.

Five kinds are inlined: those that lead to a member of the cascade (they must be computed on the tile),
intermediates that aren't kept in memory, what a single reduction reads at each point once, *views*: movement and
cheap arithmetic on one element, and *positions*: cheap arithmetic on where the element is, such as a causal mask.
Everything else stays a load of a stored tensor.
"""

from __future__ import annotations

from collections.abc import Collection

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.graph import Definition, Graph
from redfuser.expr import Axis, Const, Expr, Load, Op, index, loads, op, substitute, transform, walk
from redfuser.extents import surely_at_most, surely_less
from redfuser.indexing import linear, simplify

#: Operators cheap enough to repeat wherever the element is read.
VIEW_OPERATORS = frozenset({"cast", "add", "sub", "mul", "div", "abs", "max", "min", "pow", "select", "not"})
VIEW_OPERATORS |= {"eq", "ne", "lt", "le", "gt", "ge"}
POSITION_OPERATORS = VIEW_OPERATORS | {"and", "or", "floordiv", "floormod"}


def is_view(body: Expr) -> bool:
    """Whether an element depends on just one element of another tensor, by movement and cheap arithmetic."""
    read = loads(body)
    if len(read) != 1 or any(loads(i) for i in read[0].indices):
        return False
    return all(isinstance(n, Load | Const) or n in walk_indices(read[0]) or _is_cheap(n) for n in walk(body))


def stays_inside(node: Load) -> bool:
    """Whether a load surely stays within its tensor, whatever condition it is under; positions that data give do."""
    for place, extent in zip(node.indices, node.tensor.shape, strict=True):
        if loads(place):
            continue
        low, high = linear(place).bounds()
        if not surely_at_most(0, low) or not surely_less(high, extent):
            return False
    return True


def is_position(body: Expr) -> bool:
    """Whether an element depends on nothing but where it is, by cheap arithmetic."""
    operators = {node.name for node in walk(body) if isinstance(node, Op)}
    return not loads(body) and operators <= POSITION_OPERATORS


def walk_indices(node: Load) -> frozenset[Expr]:
    """All nodes inside the indices of a load."""
    return frozenset(inner for i in node.indices for inner in walk(i))


def _is_cheap(node: Expr) -> bool:
    if isinstance(node, Op) and node.name == "pow":
        exponent = node.args[1]
        return isinstance(exponent, Const) and exponent.value in (1, 2)
    if isinstance(node, Op) and node.name == "select" and not loads(node.args[0]):
        return False  # padding: the load is only valid where the condition holds
    return isinstance(node, Op) and node.name in VIEW_OPERATORS


class Expander:
    """Expands definitions relative to the members of one cascade, and remembers which bindings it went through.

    Args:
        hidden: what other cascades make and keep to themselves.
    """

    def __init__(
        self, graph: Graph, ancestry: Ancestry, members: Collection[str], hidden: Collection[str] = ()
    ) -> None:
        self.graph = graph
        self.ancestry = ancestry
        self.members = frozenset(members)
        self.hidden = hidden
        self.used: set[str] = set()
        self._reaches: dict[str, bool] = {}

    def reaches(self, name: str) -> bool:
        """Whether an element-wise definition leads to a member through element-wise definitions alone."""
        known = self._reaches
        stack = [name]
        while stack:
            current = stack[-1]
            definition = self.graph.definitions.get(current)
            if current in known:
                stack.pop()
            elif definition is None or definition.is_reduction:
                known[current] = current in self.members
            elif not self.ancestry.depends(current, self.members):
                known[current] = False
            else:
                sources = self.graph.sources[current]
                found = any(known.get(source) for source in sources)
                pending = [] if found else [source for source in sources if source not in known]
                if pending:
                    stack.append(pending[0])
                else:
                    known[current] = found
        return known[name]

    def inlines(self, name: str) -> bool:
        """Whether a load of this tensor is replaced by its definition."""
        definition = self.graph.definitions.get(name)
        if definition is None or definition.is_reduction:
            return False
        if self.reaches(name) or name not in self.graph.stored or is_position(definition.body):
            return True
        cheap = is_view(definition.body) or self._is_folded_once(definition)
        return cheap and all(map(self.is_there, self.graph.sources[name]))

    def is_there(self, name: str) -> bool:
        """Whether a tensor is kept in memory, made by the cascade, or element-wise on such; else it can't be read."""
        definition = self.graph.definitions.get(name)
        stored = name in self.graph.stored and name not in self.hidden
        if stored or name in self.members or definition is None:
            return True
        return not definition.is_reduction and all(map(self.is_there, self.graph.sources[name]))

    def _is_folded_once(self, definition: Definition) -> bool:
        """Whether nothing but one reduction, and that at each point once, reads the definition's elements."""
        name = definition.tensor.name
        users = self.graph.consumers.get(name, ())
        if name in self.graph.outputs or len(users) != 1 or not self.graph.definitions[users[0]].is_reduction:
            return False
        user = self.graph.definitions[users[0]]
        if not all(map(stays_inside, loads(definition.body))):
            return False
        return definition.tensor.size == user.tensor.size * reduced_extent(user)

    def body(self, definition: Definition) -> Expr:
        """A definition's element over its own axes, everything inlinable inlined, indices simplified."""
        self.used.add(definition.binding)
        return simplify(self._inline(definition.body))

    def _inline(self, expr: Expr) -> Expr:
        def rule(node: Expr) -> Expr:
            if not isinstance(node, Load) or not self.inlines(node.tensor.name):
                return node
            definition = self.graph.definitions[node.tensor.name]
            self.used.add(definition.binding)
            where = dict(zip(definition.axes, (linear(i).expr() for i in node.indices), strict=True))
            return self._inline(simplify(substitute(definition.body, where)))

        return transform(expr, rule)


def flatten_reduced(definition: Definition, shared: Axis) -> dict[Axis, Expr]:
    """The reduced axes of a definition as digits of one axis of the same total extent."""
    result: dict[Axis, Expr] = {}
    stride = shared.extent
    for reduced in definition.reduced:
        stride //= 1 if reduced.extent == 0 else reduced.extent
        quotient = shared if stride == 1 else op("floordiv", shared, index(stride))
        outer = reduced.extent * stride == shared.extent
        digit = quotient if outer else op("floormod", quotient, index(reduced.extent))
        result[reduced] = linear(digit).expr()
    return result


def reduced_extent(definition: Definition) -> int:
    """How many elements each result folds."""
    total = 1
    for reduced in definition.reduced:
        total *= reduced.extent
    return total
