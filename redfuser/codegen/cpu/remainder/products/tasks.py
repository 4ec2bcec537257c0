"""Tasks of a product, blocks of rows by panels of columns of each independent one, under a single number. No TVM."""

from __future__ import annotations

from collections.abc import Sequence

from redfuser.expr import Expr, index, op
from redfuser.indexing import linear


def digits(number: Expr, extents: Sequence[Expr]) -> list[Expr]:
    """A number in mixed radix, most significant digit first."""
    found = []
    for extent in reversed(extents):
        found.append(linear(op("floormod", number, extent)).expr())
        number = linear(op("floordiv", number, extent)).expr()
    return found[::-1]


def product_of(extents: Sequence[Expr]) -> Expr:
    """How many numbers there are."""
    total: Expr = index(1)
    for extent in extents:
        total = op("mul", total, extent)
    return total
