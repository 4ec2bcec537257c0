"""Which extents of an operator's inputs must be equal, where symbolic dimensions leave that open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from redfuser.frontend.converters.common import Inputs, extents_of
from redfuser.frontend.symbols import Symbols

#: Operators of the default domain whose inputs are all broadcast against each other.
_ELEMENTWISE = frozenset(
    [
        *("Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "PRelu", "Pow", "Sub", "Sum", "Where"),
        *("And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Or", "Xor"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    ]
)


def require_fit(operator: str, inputs: Inputs, symbols: Symbols) -> None:
    """Check that inputs fit each other whatever the symbolic dimensions: TVM would leave the shape of the result open.

    Raises:
        OutOfRange: they do up to some size of one dimension.
        ValueError: they do for some sizes only.
    """
    for extents in _facing(operator, inputs):
        spread = [extent for extent in extents if not (isinstance(extent, int) and extent == 1)]
        for extent in spread[1:]:
            symbols.require_equal(spread[0], extent)


def _facing(operator: str, inputs: Inputs) -> Iterator[tuple[Any, ...]]:
    """Extents that must be equal, or 1."""
    if operator in _ELEMENTWISE:
        yield from _aligned([extents_of(value) for value in inputs if value is not None])
    elif operator == "MatMul":
        a, b = map(extents_of, inputs)
        yield a[-1], b[max(0, len(b) - 2)]
        yield from _aligned([a[:-2], b[:-2]])


def _aligned(shapes: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    return zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
