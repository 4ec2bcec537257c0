"""Matrix products: with a weight, of two operands, and those that a later cascade computes itself. No TVM."""

from __future__ import annotations

from collections.abc import Sequence

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.assembly.expand import reduced_extent
from redfuser.cascade.dependence import row_dependencies
from redfuser.cascade.graph import Definition, Graph
from redfuser.expr import Axis, Expr, Op, axes_of, loads
from redfuser.extents import Extent, most


def factors(expr: Expr) -> list[Expr]:
    """The multiplicative factors of an expression."""
    if isinstance(expr, Op) and expr.name == "mul":
        return factors(expr.args[0]) + factors(expr.args[1])
    return [expr]


def is_weight_product(graph: Graph, body: Expr, shared: Axis, free: set[Axis]) -> bool:
    """Whether the map is a product with a constant factor that alone carries further axes: a GEMM with weights."""
    constant = [f for f in factors(body) if _is_constant(graph, f) and shared in axes_of(f)]
    others = [f for f in factors(body) if f not in constant]
    own = set().union(*(axes_of(f) for f in constant)) - {shared} if constant else set()
    return bool(own & free) and not any(own & axes_of(f) for f in others)


def _is_constant(graph: Graph, factor: Expr) -> bool:
    read = loads(factor)
    return bool(read) and all(node.tensor.name in graph.constants for node in read)


def is_product(graph: Graph, definition: Definition) -> bool:
    """Whether this is a floating-point product of two operands along the sum, none of them a constant weight."""
    varying = [f for f in factors(definition.body) if loads(f)]
    weights = [f for f in varying if all(n.tensor.name in graph.constants for n in loads(f))]
    reduced = set(definition.reduced)
    return (
        definition.combiner == "sum"
        and "float" in definition.tensor.dtype
        and len(varying) == 2
        and not weights
        and all(reduced <= axes_of(f) for f in varying)
    )


def folds_as_much(earlier: Definition, later: Definition) -> bool:
    """Whether two reductions fold the same number of elements."""
    return reduced_extent(earlier) == reduced_extent(later)


def are_scores(graph: Graph, ancestry: Ancestry, definition: Definition, normalised: Sequence[str]) -> bool:
    """Whether a product is there for a cascade alone that weighs by it: what attention makes of queries and keys.

    That cascade computes it on its tiles. With the norm of the queries it would be a cascade of its own and stored: an
    element for each pair of a query and a key, which is worth while only where that is no more than the queries are.

    Args:
        normalised: reductions on which the product depends by row, over as many elements.
    """
    operands = max(most(_elements(graph.definitions[name])) for name in normalised)
    if not is_product(graph, definition) or most(definition.tensor.size) <= operands:
        return False
    readers = _reductions_behind(graph, definition.tensor.name)
    weighing = [d for d in map(graph.definitions.__getitem__, readers) if is_product(graph, d)]
    return any(
        earlier in readers and folds_as_much(graph.definitions[earlier], later)
        for later in weighing
        for earlier in row_dependencies(graph, ancestry, later)
    )


def _elements(definition: Definition) -> Extent:
    """How many elements a reduction folds, of all its results together."""
    return definition.tensor.size * reduced_extent(definition)


def _reductions_behind(graph: Graph, name: str) -> tuple[str, ...]:
    """All that reads a tensor, through element-wise definitions; nothing if the model returns it or one of those."""
    readers: dict[str, None] = {}
    pending, seen = [name], {name}
    while pending:
        current = pending.pop()
        if current in graph.outputs:
            return ()
        for user in graph.consumers.get(current, ()):
            if graph.definitions[user].is_reduction:
                readers[user] = None
            elif user not in seen:
                seen.add(user)
                pending.append(user)
    return tuple(readers)
