"""What stands on chip outside an axis: tails must not change a reduction or a matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite

import numpy as np

from redfuser.expr import Axis, Const, Expr, Load, Op, Tensor, axes_of, number
from redfuser.expr.evaluate import evaluate
from redfuser.tile.ir import Buffer, Contract, Map, Reduce, Statement
from redfuser.tile.monoid import identity

Value = float | int | bool


class Padding:
    """Known values of buffers outside an axis, as the statements so far left them.

    Memory is read under a guard, which gives 0 outside.
    """

    def __init__(self, buffers: Sequence[Buffer]) -> None:
        self.buffers = {buffer.tensor for buffer in buffers}
        self.known: dict[tuple[Tensor, Axis], Value] = {}
        self.finite_below: set[Tensor] = set()

    def forget(self, tensor: Tensor) -> None:
        """A buffer was written in a way that says nothing about its padding."""
        self.known = {key: value for key, value in self.known.items() if key[0] != tensor}
        self.finite_below.discard(tensor)

    def learn(self, statement: Map, axes: Sequence[Axis]) -> None:
        """Work out what a map leaves outside each of ``axes``."""
        tensor = statement.target.tensor
        found = {(tensor, axis): self.value(statement.value, axis) for axis in axes}
        bounded = _never_minus_infinity(statement.value)
        self.forget(tensor)
        self.known |= {key: value for key, value in found.items() if value is not None}
        if bounded:
            self.finite_below.add(tensor)

    def value(self, expr: Expr, axis: Axis) -> Value | None:
        """The constant that ``expr`` is outside ``axis``; ``None`` if it may be anything.

        A NaN in its place counts as that constant where the same row holds a NaN inside the axis.
        """
        if isinstance(expr, Const):
            return expr.value
        if isinstance(expr, Load):
            if expr.tensor in self.buffers:
                return self.known.get((expr.tensor, axis))
            return 0 if any(axis in axes_of(i) for i in expr.indices) else None
        if not isinstance(expr, Op) or expr.name in ("pair", "value", "position"):
            return None
        args = [self.value(argument, axis) for argument in expr.args]
        if expr.name == "sub" and args[0] == -inf and self._is_finite_below(expr.args[1]):
            return -inf
        if expr.name == "mul" and -inf in args:
            other = args[1 - args.index(-inf)]
            return -inf if other is not None and other > 0 else None
        if any(value is None for value in args):
            return None
        constants = [_constant(v, a.dtype) for v, a in zip(args, expr.args, strict=True) if v is not None]
        result: Value = evaluate(expr.rebuild(tuple(constants)), {}, {}).item()
        return result

    def exponential(self, value: Expr) -> bool:
        """``exp(x - base)`` with a running maximum for base: between 0 and 1, or NaN."""
        if not isinstance(value, Op) or value.name != "exp" or not isinstance(value.args[0], Op):
            return False
        inner = value.args[0]
        return inner.name == "sub" and self._is_finite_below(inner.args[1])

    def _is_finite_below(self, expr: Expr) -> bool:
        return isinstance(expr, Load) and expr.tensor in self.finite_below


def _constant(value: Value, dtype: str) -> Const:
    return Const(dtype, value) if dtype == "bool" else number(value, dtype)


def _never_minus_infinity(value: Expr) -> bool:
    """``select(x == -inf, finite, x)``, as base points are written."""
    if not isinstance(value, Op) or value.name != "select":
        return False
    test, empty, other = value.args
    return (
        isinstance(test, Op)
        and test.name == "eq"
        and test.args[0] == other
        and isinstance(test.args[1], Const)
        and test.args[1].value == -inf
        and isinstance(empty, Const)
        and isfinite(empty.value)
    )


def wanted(target: Buffer, axis: Axis, later: Sequence[Statement]) -> Value | None:
    """What the next fold of ``target`` over ``axis`` needs outside the axis; ``None`` if nothing folds it."""
    for statement in later:
        if isinstance(statement, Reduce) and statement.over == axis and statement.value == target.value:
            return identity(statement.combiner, statement.value.dtype)
        if (
            isinstance(statement, Contract)
            and statement.over == axis
            and target.value in (statement.left, statement.right)
        ):
            return 0
        if isinstance(statement, Map) and statement.target == target:
            return None
    return None


def same(left: Value | None, right: Value | None) -> bool:
    """Equal, and both known."""
    return left is not None and right is not None and bool(np.equal(left, right))
