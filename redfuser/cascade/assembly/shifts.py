"""Softmax of what its maximum was taken from already: attention sinks take it twice. No TVM.

``softmax(d)`` for ``d = c - m`` and ``m = max(c)`` along the same axis takes ``max(d)`` away again. Rounding is
monotone, so that is the difference at the largest element, ``m - m``: 0 where m is finite, and then ``exp(d - 0)`` is
``exp(d)``. Where m is infinite or NaN some element of d is NaN, so both sums are, and so is all of either softmax.
Casts of d to other floating-point types on the way, monotone too, change nothing of this.

The argument takes the whole softmax: where an exponential went anywhere but into its sum and the quotient by that sum,
an infinite m would show. With another b in place of m the maximum can't be moved: of ``c = (-inf, 0)`` and
``b = -inf``, ``max(c - b)`` is NaN and ``max(c) - b`` is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from redfuser.cascade.graph import Definition, Graph
from redfuser.expr import Axis, Expr, Load, Op, axes_of, index, op, substitute
from redfuser.extents import surely_at_most
from redfuser.indexing import simplify

_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


def take_maximum_once(graph: Graph) -> Graph:
    """``graph`` with the softmax of ``c - max(c)`` as ``exp(c - max(c))`` divided by its sum."""
    # The last first: c may be such a difference itself.
    for fold in reversed(list(graph.definitions.values())):
        way = _way(graph, fold) if _is_of_shifted(graph, fold) else ()
        settled = _settled(graph, fold, way[-1]) if way else None
        if settled is not None:
            graph = _without(graph, (fold, *way[:-1]), settled)
    return graph


def _without(graph: Graph, dead: Sequence[Definition], settled: Definition) -> Graph:
    """``graph`` with a definition in place of the one that alone read ``dead``; it answers for their ONNX nodes."""
    names = {definition.tensor.name for definition in dead}
    definitions = {name: definition for name, definition in graph.definitions.items() if name not in names}
    definitions[settled.tensor.name] = settled
    left = {definition.binding for definition in definitions.values()}
    gone = dict.fromkeys(definition.binding for definition in dead if definition.binding not in left)
    nodes = [node for binding in (*gone, settled.binding) for node in graph.provenance.get(binding, ())]
    return replace(
        graph,
        definitions=definitions,
        provenance={**graph.provenance, settled.binding: tuple(dict.fromkeys(nodes))},
        inputs_of={binding: read for binding, read in graph.inputs_of.items() if binding not in gone},
    )


def _settled(graph: Graph, fold: Definition, reader: Definition) -> Definition | None:
    """``reader``, which takes the maximum ``fold`` away, without that, if it is of a whole softmax."""
    is_apart = _is(reader.body, "sub")
    way = _way(graph, reader) if is_apart else (reader,)
    exponent = _exponent(graph, way[-1]) if way else None
    if exponent is None or not _measures(graph, way[-1], exponent, fold):
        return None
    if not _is_normalised(graph, way[-1], exponent[1]):
        return None
    return replace(reader, body=reader.body.children[0] if is_apart else op("exp", exponent[0]))


def _is_of_shifted(graph: Graph, fold: Definition) -> bool:
    """Whether a fold is the maximum of ``c - m``, where m is that of c along the same axis."""
    # Of no elements it is -inf; differences of integers may wrap around.
    if fold.combiner != "max" or not fold.reduced or fold.tensor.dtype not in _FLOATS:
        return False
    difference = _difference(graph, fold.body)
    if difference is None or not all(surely_at_most(1, axis.extent) for axis in fold.reduced):
        return False
    element, maximum = difference
    first = graph.definitions.get(maximum.tensor.name) if isinstance(maximum, Load) else None
    if first is None or first.combiner != "max" or axes_of(maximum) & set(fold.reduced):
        return False
    if not _same_extents(first.reduced, fold.reduced):
        return False
    folded = _at(first.body, (*first.axes, *first.reduced), (*maximum.children, *fold.reduced))
    return _origin(graph, folded) == element


def _exponent(graph: Graph, exponential: Definition) -> tuple[Expr, Load] | None:
    """d and the load of m, if a definition is ``exp(d - m)``; the difference may have a definition of its own."""
    if not _is(exponential.body, "exp"):
        return None
    inner: Expr | None = _origin(graph, exponential.body.children[0])
    if isinstance(inner, Load):
        inner = _body(graph, inner)
    if inner is None or not _is(inner, "sub"):
        return None
    shifted, maximum = inner.children[0], _origin(graph, inner.children[1])
    return (shifted, maximum) if isinstance(maximum, Load) else None


def _measures(graph: Graph, exponential: Definition, exponent: tuple[Expr, Load], fold: Definition) -> bool:
    """Whether the d of ``exp(d - m)`` is the one that ``fold`` gives the maximum m of."""
    shifted, maximum = exponent
    along = [exponential.axes[n] for n in _along(exponential, maximum)]
    if maximum.tensor != fold.tensor or not _same_extents(along, fold.reduced):
        return False
    folded = _at(fold.body, (*fold.axes, *fold.reduced), (*maximum.indices, *along))
    return _difference(graph, folded) == _difference(graph, shifted)


def _is_normalised(graph: Graph, exponential: Definition, maximum: Load) -> bool:
    """Whether exponentials only go into their sum along the axes of the maximum, and the quotient by it."""
    name = exponential.tensor.name
    readers = [graph.definitions[reader] for reader in graph.consumers.get(name, ())]
    total = next((reader for reader in readers if reader.combiner == "sum"), None)
    quotient = None if total is None else _only_reader(graph, total)
    if name in graph.outputs or total is None or quotient is None or len(readers) != 2 or quotient not in readers:
        return False
    if quotient.is_reduction or not _is(quotient.body, "div"):
        return False
    value, divisor = quotient.body.children
    # Loads of these two and of nothing else: the quotient reads both.
    if not (isinstance(total.body, Load) and isinstance(value, Load) and isinstance(divisor, Load)):
        return False
    if divisor.tensor != total.tensor:
        return False
    along = _along(exponential, maximum)
    rows = [n for n, axis in enumerate(exponential.axes) if n not in along and axis.extent != 1]
    summed = _at(total.body, total.axes, divisor.indices)
    whole = tuple(total.body.indices[n] for n in along) == total.reduced
    return whole and all(summed.children[n] == _simple(value.indices[n]) for n in rows)


def _is(expr: Expr, name: str) -> bool:
    return isinstance(expr, Op) and expr.name == name


def _along(exponential: Definition, maximum: Load) -> list[int]:
    """The places of the axes along which the maximum is one number."""
    return [n for n, a in enumerate(exponential.axes) if a not in axes_of(maximum) and a.extent != 1]


def _same_extents(first: Sequence[Axis], second: Sequence[Axis]) -> bool:
    return [axis.extent for axis in first] == [axis.extent for axis in second]


def _only_reader(graph: Graph, definition: Definition) -> Definition | None:
    """The one definition that reads another's result, if nothing else does."""
    name = definition.tensor.name
    readers = graph.consumers.get(name, ())
    return graph.definitions[readers[0]] if len(readers) == 1 and name not in graph.outputs else None


def _way(graph: Graph, definition: Definition) -> tuple[Definition, ...]:
    """What alone reads a result: what moves it, and at the end what computes with it; empty if that isn't one."""
    reader = _only_reader(graph, definition)
    if reader is None or reader.is_reduction or not isinstance(reader.body, Load):
        return () if reader is None else (reader,)
    rest = _way(graph, reader)
    return (reader, *rest) if rest else ()


def _difference(graph: Graph, expr: Expr) -> tuple[Expr, Expr] | None:
    """The two sides of a difference, which may have been stored, moved and cast since."""
    found: Expr | None = _simple(expr)
    while found is not None and not _is(found, "sub"):
        found = _body(graph, found) if isinstance(found, Load) else _uncast(found)
    if found is None:
        return None
    left, right = (_origin(graph, side) for side in found.children)
    return left, right


def _uncast(expr: Expr) -> Expr | None:
    """What a cast between floating-point types, which is monotone and leaves 0 and NaN alone, is taken of."""
    return expr.children[0] if _is(expr, "cast") and {expr.dtype, expr.children[0].dtype} <= _FLOATS else None


def _origin(graph: Graph, expr: Expr) -> Expr:
    """A load of what is only moved as a load of where it comes from; any other expression as it is."""
    expr = _simple(expr)
    while isinstance(expr, Load) and isinstance(source := _body(graph, expr), Load):
        expr = source
    return expr


def _body(graph: Graph, read: Load) -> Expr | None:
    """The element-wise definition of what is loaded, at the place it is loaded at."""
    source = graph.definitions.get(read.tensor.name)
    return None if source is None or source.is_reduction else _at(source.body, source.axes, read.indices)


def _at(body: Expr, axes: Sequence[Axis], places: Sequence[Expr]) -> Expr:
    return _simple(substitute(body, dict(zip(axes, places, strict=True))))


def _simple(expr: Expr) -> Expr:
    """With plain indices; an axis of one place is 0."""
    return simplify(substitute(expr, {axis: index(0) for axis in axes_of(expr) if axis.extent == 1}))
