"""Which reductions another one uses as one number for its whole fold. No TVM."""

from __future__ import annotations

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.graph import Definition, Graph
from redfuser.expr import Axis, Expr, axes_of, loads, substitute
from redfuser.indexing import linear


def row_dependencies(graph: Graph, ancestry: Ancestry, definition: Definition) -> dict[str, frozenset[Axis]]:
    """Reductions that ``definition``'s map loads at an index free of its reduced axes, nearest first, and their rows.

    The rows of a result are the axes of ``definition`` that it is loaded at.

    The search doesn't look behind a tensor that another reduction on the way here also reads: whatever lies
    behind it is separated from ``definition`` by that reduction. This keeps it local in a residual network.
    """
    found: dict[str, frozenset[Axis]] = {}
    seen: set[tuple[str, frozenset[int]]] = set()
    folded = frozenset(definition.reduced)
    pending: list[tuple[Expr, dict[Axis, Expr]]] = [(definition.body, {})]
    above = ancestry.of[definition.tensor.name] & ~ancestry.mask([definition.tensor.name])
    while pending:
        body, where = pending.pop(0)
        for node in loads(body):
            name = node.tensor.name
            # Over the definition's own axes: behind a Reshape, only the composed index shows what a place depends on.
            indices = [linear(substitute(i, where)).expr() for i in node.indices]
            touched = frozenset(k for k, i in enumerate(indices) if axes_of(i) & folded)
            source = graph.definitions.get(name)
            if source is None or (name, touched) in seen:
                continue
            seen.add((name, touched))
            if source.is_reduction:
                if not touched:
                    found[name] = frozenset().union(*map(axes_of, indices))
            elif not ancestry.readers[name] & above & ~ancestry.mask(found):
                pending.append((source.body, dict(zip(source.axes, indices, strict=True))))
    return found
