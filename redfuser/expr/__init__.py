"""Scalar expressions: the vocabulary all stages share. Pure Python, no TVM.

An expression gives one element of a tensor as a function of *axes* (loop coordinates). Leaves are
constants, axes and loads; inner nodes apply a named operator. Index arithmetic uses the same nodes
with dtype ``int64``. Expressions are immutable and hashable; equal ones are one object.
"""

from redfuser.expr.constructors import (
    INDEX,
    axis,
    cast,
    index,
    load,
    number,
    op,
    pair,
    position_of,
    taken_apart,
    value_of,
)
from redfuser.expr.nodes import Axis, Const, Expr, Load, Op, Symbol, Tensor
from redfuser.expr.operators import COMPARISONS, OPERATORS, PAIR
from redfuser.expr.traversal import axes_of, loads, substitute, transform, walk

__all__ = [
    "COMPARISONS",
    "INDEX",
    "OPERATORS",
    "PAIR",
    "Axis",
    "Const",
    "Expr",
    "Load",
    "Op",
    "Symbol",
    "Tensor",
    "axes_of",
    "axis",
    "cast",
    "index",
    "load",
    "loads",
    "number",
    "op",
    "pair",
    "position_of",
    "substitute",
    "taken_apart",
    "transform",
    "value_of",
    "walk",
]
