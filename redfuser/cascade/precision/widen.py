"""Half precision: results and arithmetic in float32, memory as it is.

A product of float16 scores that overflows in the literal graph and not in float32 is right in float32, so that
wins (METHOD §4). A cast *to* half precision is part of the map: it still rounds.
"""

from __future__ import annotations

from dataclasses import replace

from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Const, Expr, Load, Op, Tensor, cast, load, transform

HALVES = frozenset({"float16", "bfloat16"})
WIDE = "float32"


def widen(cascade: Cascade) -> Cascade:
    """The cascade with every result and operation in half precision taken to float32.

    Inputs and outputs keep their type. The algebra and the tile program are made from the widened cascade; the
    literal one is what a check compares with.
    """
    inputs = frozenset(cascade.inputs)
    return replace(
        cascade,
        producers=tuple(_reduction(r, inputs) for r in cascade.producers),
        reductions=tuple(_reduction(r, inputs) for r in cascade.reductions),
        epilogues=tuple(_reduction(r, inputs) for r in cascade.epilogues),
        outputs=tuple(_output(o, inputs) for o in cascade.outputs),
    )


def widen_expr(expr: Expr, inputs: frozenset[Tensor]) -> Expr:
    """An expression over ``inputs`` and results of reductions, in float32 where it was in half precision."""

    def rule(node: Expr) -> Expr:
        if node.dtype not in HALVES:
            return _narrow_no_more(node)
        if isinstance(node, Const):
            return Const(WIDE, node.value)
        if isinstance(node, Load):
            return cast(node, WIDE) if node.tensor in inputs else load(_tensor(node.tensor), *node.indices)
        assert isinstance(node, Op)
        if node.name == "cast":
            return cast(node, WIDE) if node.args[0].dtype != "bool" else cast(node.args[0], WIDE)
        return Op(WIDE, node.name, node.args)

    return transform(expr, rule)


def _narrow_no_more(node: Expr) -> Expr:
    """A cast to float32 of what is float32 by now."""
    if isinstance(node, Op) and node.name == "cast" and node.args[0].dtype == node.dtype:
        return node.args[0]
    return node


def _tensor(tensor: Tensor) -> Tensor:
    return Tensor(tensor.name, tensor.shape, WIDE) if tensor.dtype in HALVES else tensor


def _reduction(reduction: Reduction, inputs: frozenset[Tensor]) -> Reduction:
    return replace(reduction, result=_tensor(reduction.result), map=widen_expr(reduction.map, inputs))


def _output(output: Output, inputs: frozenset[Tensor]) -> Output:
    value = widen_expr(output.value, inputs)
    return replace(output, value=cast(value, output.tensor.dtype) if output.tensor.dtype in HALVES else value)
