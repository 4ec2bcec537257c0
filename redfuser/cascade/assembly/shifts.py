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
    definitions = dict(graph.definitions)
    for name, fold in graph.definitions.items():
        exponential = _settled(graph, fold)
        if exponential is not None:
            definitions[exponential.tensor.name] = exponential
            del definitions[name]
    return replace(graph, definitions=definitions) if len(definitions) < len(graph.definitions) else graph


def _settled(graph: Graph, fold: Definition) -> Definition | None:
    """The exponentials of a softmax without ``fold``, if that takes its maximum a second time."""
    exponential = _only_reader(graph, fold) if _is_of_shifted(graph, fold) else None
    parts = None if exponential is None else _exponent(exponential)
    if exponential is None or parts is None or not _measures(graph, exponential, fold):
        return None
    shifted, maximum = parts
    return replace(exponential, body=op("exp", shifted)) if _is_normalised(graph, exponential, maximum) else None


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


def _exponent(exponential: Definition) -> tuple[Expr, Load] | None:
    """d and the load of m, if a definition is ``exp(d - m)``."""
    body = exponential.body
    if isinstance(body, Op) and body.name == "exp" and isinstance(inner := body.args[0], Op) and inner.name == "sub":
        shifted, maximum = inner.args
        return (shifted, maximum) if isinstance(maximum, Load) else None
    return None


def _measures(graph: Graph, exponential: Definition, fold: Definition) -> bool:
    """Whether the d of ``exp(d - m)`` is the one that ``fold`` gives the maximum m of."""
    parts = _exponent(exponential)
    if parts is None or parts[1].tensor != fold.tensor:
        return False
    shifted, maximum = parts
    along = [exponential.axes[n] for n in _along(exponential, maximum)]
    if not _same_extents(along, fold.reduced):
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
    if quotient.is_reduction or not isinstance(quotient.body, Op) or quotient.body.name != "div":
        return False
    value, divisor = quotient.body.args
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


def _difference(graph: Graph, expr: Expr) -> tuple[Expr, Expr] | None:
    """The two sides of a difference, which may have been stored, moved and cast since."""
    found: Expr | None = _simple(expr)
    while found is not None and not (isinstance(found, Op) and found.name == "sub"):
        found = _body(graph, found) if isinstance(found, Load) else _uncast(found)
    if found is None:
        return None
    left, right = (_origin(graph, side) for side in found.children)
    return left, right


def _uncast(expr: Expr) -> Expr | None:
    """What a cast between floating-point types, which is monotone and leaves 0 and NaN alone, is taken of."""
    is_cast = isinstance(expr, Op) and expr.name == "cast"
    return expr.children[0] if is_cast and {expr.dtype, expr.children[0].dtype} <= _FLOATS else None


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
