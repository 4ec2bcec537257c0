"""Tile-local producers: contractions whose result the cascade consumes element by element. No TVM.

q·k over the head dimension is the best-known one. It can be computed on the tile instead of being stored when
the cascade alone reads it, each element once, and the operands belong to the row (a product with a weight, or with a
long matrix that all rows share, is faster as a GEMM of its own).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from redfuser.cascade.ancestry import Ancestry
from redfuser.cascade.assembly.expand import Expander, flatten_reduced, reduced_extent
from redfuser.cascade.graph import Definition, Graph
from redfuser.cascade.products import factors, is_product
from redfuser.expr import Axis, Const, Expr, Load, axes_of, axis, loads, op
from redfuser.extents import is_symbolic, most, surely_at_most
from redfuser.indexing import replace

#: A gate's matrix is this long at least, and this many times as long as wide.
LONG, NARROW = 512, 4


@dataclass(frozen=True)
class Producer:
    """A contraction to be computed on the tile.

    Args:
        name: the graph tensor it defines.
        place: its axes in the cascade's coordinates.
        over: the contracted axis.
        map: one element of the sum, in the cascade's coordinates, without its constant factors.
        scale: product of the constant factors, to be applied to the sum.
    """

    name: str
    place: Mapping[Axis, Expr]
    over: Axis
    map: Expr
    scale: float


def candidates(
    graph: Graph, ancestry: Ancestry, members: Sequence[str], hidden: Collection[str] = ()
) -> tuple[str, ...]:
    """Contractions that members read through element-wise definitions, and that nothing else reads.

    What they are made of must be kept in memory: the sum of squares in a norm before needs its mean, which isn't.

    What others read too is as far as the search goes: they also read, through it, all that lies behind. This keeps it
    local in a residual network.

    Args:
        hidden: what other cascades make and keep to themselves.
    """
    downstream = Expander(graph, ancestry, members, hidden)
    found: dict[str, None] = {}
    seen = set(members)
    pending = list(members)
    while pending:
        for name in graph.sources[pending.pop()]:
            definition = graph.definitions.get(name)
            if definition is None or name in seen:
                continue
            seen.add(name)
            private = _private(graph, definition, members, downstream)
            if not definition.is_reduction and (private or downstream.reaches(name)):
                pending.append(name)
            elif definition.is_reduction and private and is_product(graph, definition):
                found[name] = None
    return tuple(name for name in found if all(map(downstream.is_there, graph.sources[name])))


def _private(graph: Graph, definition: Definition, members: Sequence[str], downstream: Expander) -> bool:
    """Whether nothing but the cascade reads it, however far through element-wise definitions."""
    pending, seen = [definition.tensor.name], set(members)
    if definition.tensor.name in graph.outputs:
        return False
    while pending:
        for user in graph.consumers.get(pending.pop(), ()):
            if user in seen:
                continue
            seen.add(user)
            if graph.definitions[user].is_reduction or user in graph.outputs:
                return False
            if not downstream.reaches(user):
                pending.append(user)
    return True


def place_producers(
    graph: Graph,
    names: Sequence[str],
    shared: Axis,
    rows: Collection[Axis],
    maps: Iterable[Expr],
    expander: Expander,
) -> tuple[tuple[Producer, ...], frozenset[str]]:
    """Place the candidates that the maps read.

    Args:
        rows: of the cascade; a result that some of them share would be computed again for each block of these.

    Returns:
        The producers, and the names of candidates that must stay stored: read at two places, or not once an element.
    """
    needed = frozenset([shared, *(row for row in rows if row.extent != 1)])
    found: dict[str, Producer] = {}
    refused: set[str] = set()
    for body in maps:
        for node in loads(body):
            name = node.tensor.name
            if name not in names or name in refused:
                continue
            producer = _place(graph.definitions[name], node, shared, needed, expander, len(found))
            if producer is None or found.setdefault(name, producer).place != producer.place:
                refused.add(name)
    return tuple(p for p in found.values() if p.name not in refused), frozenset(refused)


def _place(
    definition: Definition, node: Load, shared: Axis, needed: frozenset[Axis], expander: Expander, number: int
) -> Producer | None:
    sources = {a for i in node.indices for a in axes_of(i)}
    total = 1
    for a in sources:
        total *= a.extent
    if not needed <= sources or total != definition.tensor.size:
        return None
    over = axis(f"contracted{number}", reduced_extent(definition))
    if is_symbolic(over.extent):  # scores of channels, say, summed along the tokens: no tile holds all of these
        return None
    place = dict(zip(definition.axes, node.indices, strict=True))
    body = replace(expander.body(definition), {**place, **flatten_reduced(definition, over)})
    if any(_is_gate(factor, shared, over) for factor in factors(body)):
        return None
    return Producer(definition.tensor.name, place, over, *split_constants(body))


def _is_gate(factor: Expr, shared: Axis, over: Axis) -> bool:
    """Whether a factor is a long and narrow matrix that all rows share, as that of a gate of experts.

    Storing the scores is next to nothing then beside reading what they are made of, and a row or the matrix held on
    chip for them would leave no room for anything else.
    """
    return axes_of(factor) == {shared, over} and surely_at_most(max(LONG, most(shared.extent) * NARROW), over.extent)


def split_constants(body: Expr) -> tuple[Expr, float]:
    """A product without its constant factors (a scale on either operand, or both), and their product."""
    scale, product = 1.0, None
    for factor in factors(body):
        if isinstance(factor, Const):
            scale *= float(factor.value)
        else:
            product = factor if product is None else op("mul", product, factor)
    return (body, 1.0) if product is None else (product, scale)
