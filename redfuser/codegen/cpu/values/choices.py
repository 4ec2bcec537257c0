"""Choices among elements in memory: only those chosen are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from redfuser.codegen.cpu.lowering.region import Region
from redfuser.codegen.cpu.values.access import Access, Evaluate, inside
from redfuser.codegen.cpu.values.operations import constant
from redfuser.codegen.cpu.values.vectors import level
from redfuser.expr import Const, Expr, Load, Op, axes_of, substitute

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr


def chosen_elements(node: Op, region: Region, access: Access, evaluate: Evaluate) -> PrimExpr | None:
    """A choice that is the same for all lanes, as vectors: so are rows joined along a dimension of open size.

    Which of them an index is inside of only the condition says. None where it is another choice.

    Args:
        node: a ``select``.
        evaluate: gives the value of its condition.
    """
    from tvm.tirx import if_then_else

    lane = region.lane
    if lane is None or not _is_joined(node, access):
        return None
    condition, *sides = node.args
    if any(lane in axes_of(substitute(part, region.points())) for part in _conditions(node)):
        return None
    values = [_side(side, region, access, evaluate) for side in sides]
    if values[0] is None or values[1] is None:
        return None
    return if_then_else(evaluate(condition, region.element(0)), *level(values[0], values[1]))


def _side(side: Expr, region: Region, access: Access, evaluate: Evaluate) -> PrimExpr | None:
    if isinstance(side, Const):
        return constant(side)
    if isinstance(side, Load):
        return access.where_wanted(side, region, evaluate)
    assert isinstance(side, Op)
    return chosen_elements(side, region, access, evaluate)


def _is_joined(node: Expr, access: Access) -> bool:
    """Whether it is a choice among elements in memory and constants, one of which may lie outside its tensor."""
    if not isinstance(node, Op) or node.name != "select":
        return False
    sides = [*_leaves(node)]
    kept = all(isinstance(side, Const) or _in_memory(side, access) for side in sides)
    return kept and any(isinstance(side, Load) and not inside(side) for side in sides)


def _leaves(node: Expr) -> Iterator[Expr]:
    """What nested choices are among."""
    if isinstance(node, Op) and node.name == "select":
        for side in node.args[1:]:
            yield from _leaves(side)
    else:
        yield node


def _conditions(node: Expr) -> Iterator[Expr]:
    """What nested choices depend on."""
    if isinstance(node, Op) and node.name == "select":
        yield node.args[0]
        for side in node.args[1:]:
            yield from _conditions(side)


def _in_memory(node: Expr, access: Access) -> bool:
    return isinstance(node, Load) and node.tensor not in access.layouts
