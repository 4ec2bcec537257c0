"""Writing one computation in many ways: every choice that an exporter might make differently is made at random."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from models.builder import Builder

T = TypeVar("T")

#: Largest finite magnitude to hide a score with, by dtype; every row sees something, so any will do.
HIDDEN = {"float32": -1e9, "float16": -1e4}


@dataclass(frozen=True)
class Value:
    """A value of the graph."""

    name: str
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)


class Speller:
    """Builds a graph of one floating-point type. ``plain`` takes the first of all choices, the usual spelling.

    Args:
        choices: where the others come from.
    """

    def __init__(self, dtype: str, choices: random.Random, plain: bool) -> None:
        self.dtype, self.choices, self.plain = dtype, choices, plain
        self.build = Builder("fuzz")

    def pick(self, *options: T) -> T:
        """One of the options; each must mean the same."""
        return options[0] if self.plain else self.choices.choice(options)

    def spell(self, *options: Callable[[], Value]) -> Value:
        """One of several ways to write a value, perhaps with something that changes nothing behind it."""
        return self.aside(self.pick(*options)())

    # ---- leaves
    def input(self, name: str, *shape: int, dtype: str = "") -> Value:
        return Value(self.build.input(name, shape, dtype or self.dtype), shape)

    def number(self, value: float, rank: int = 0) -> Value:
        """A constant, with or without axes."""
        shape = (1,) * self.pick(0, min(1, rank), rank)
        return Value(self.build.constant(np.full(shape, value), self.dtype), shape)

    def integers(self, *values: int) -> str:
        return self.build.constant(list(values))

    def output(self, value: Value, name: str) -> None:
        self.build.output(value.name, value.shape, self.dtype, name)

    # ---- what changes nothing
    def aside(self, x: Value) -> Value:
        """Now and then a detour that ends where it began."""
        if self.plain or self.choices.random() < 0.8:
            return x
        detours = (self.copied, self.recast, self.reshaped, self.turned, self.unsqueezed, self.times_one)
        return self.choices.choice(detours)(x)

    def copied(self, x: Value) -> Value:
        return self.node("Identity", x)

    def recast(self, x: Value) -> Value:
        return Value(self.build.node("Cast", x.name, to=10 if self.dtype == "float16" else 1), x.shape)

    def reshaped(self, x: Value) -> Value:
        flat = self.build.node("Reshape", x.name, self.integers(*self.pick((-1,), (1, -1))))
        return Value(self.build.node("Reshape", flat, self.integers(*x.shape)), x.shape)

    def turned(self, x: Value) -> Value:
        order = list(range(x.rank))
        self.choices.shuffle(order)
        return self.transpose(self.transpose(x, order), [order.index(i) for i in range(x.rank)])

    def unsqueezed(self, x: Value) -> Value:
        place = self.integers(self.choices.randint(0, x.rank))
        return Value(self.build.node("Squeeze", self.build.node("Unsqueeze", x.name, place), place), x.shape)

    def times_one(self, x: Value) -> Value:
        return self.node("Mul", x, self.number(1.0, x.rank))

    # ---- elementwise
    def node(self, operator: str, *inputs: Value) -> Value:
        """An elementwise operator with broadcasting."""
        shape = np.broadcast_shapes(*[value.shape for value in inputs])
        return Value(self.build.node(operator, *[value.name for value in inputs]), tuple(shape))

    def add(self, a: Value, b: Value) -> Value:
        return self.spell(lambda: self.node("Add", a, b), lambda: self.node("Add", b, a))

    def sub(self, a: Value, b: Value) -> Value:
        return self.spell(
            lambda: self.node("Sub", a, b),
            lambda: self.node("Add", a, self.node("Neg", b)),
            lambda: self.node("Sub", a, self.expanded(b, a)),
        )

    def mul(self, a: Value, b: Value) -> Value:
        return self.spell(lambda: self.node("Mul", a, b), lambda: self.node("Mul", b, a))

    def div(self, a: Value, b: Value) -> Value:
        return self.spell(
            lambda: self.node("Div", a, b),
            lambda: self.node("Mul", a, self.node("Reciprocal", b)),
            lambda: self.node("Div", a, self.expanded(b, a)),
        )

    def square(self, x: Value) -> Value:
        return self.spell(lambda: self.node("Mul", x, x), lambda: self.node("Pow", x, self.number(2.0, x.rank)))

    def sqrt(self, x: Value) -> Value:
        return self.spell(lambda: self.node("Sqrt", x), lambda: self.node("Pow", x, self.number(0.5, x.rank)))

    def unary(self, operator: str, x: Value) -> Value:
        return self.spell(lambda: self.node(operator, x))

    def scaled(self, x: Value, factor: float) -> Value:
        """Times a positive constant."""
        root = math.sqrt(factor)
        return self.spell(
            lambda: self.node("Mul", x, self.number(factor, x.rank)),
            lambda: self.node("Div", x, self.number(1 / factor, x.rank)),
            lambda: self.node("Mul", self.node("Mul", x, self.number(root)), self.number(root)),
        )

    def expanded(self, x: Value, like: Value) -> Value:
        """Broadcast by a node of its own."""
        if x.shape == like.shape or x.rank > like.rank:
            return x
        return Value(self.build.node("Expand", x.name, self.integers(*like.shape)), like.shape)

    def transpose(self, x: Value, order: list[int]) -> Value:
        return Value(self.build.node("Transpose", x.name, perm=order), tuple(x.shape[i] for i in order))

    # ---- reductions; the reduced axis stays, with extent 1
    def reduce(self, kind: str, x: Value, axis: int) -> Value:
        """``sum``, ``mean``, ``max``, ``min`` or ``sum_square``."""
        ways = {
            "sum": (lambda: self.folded("ReduceSum", x, axis),),
            "max": (lambda: self.folded("ReduceMax", x, axis),),
            "min": (
                lambda: self.folded("ReduceMin", x, axis),
                lambda: self.node("Neg", self.folded("ReduceMax", self.node("Neg", x), axis)),
            ),
            "mean": (
                lambda: self.folded("ReduceMean", x, axis),
                lambda: self.scaled(self.folded("ReduceSum", x, axis), 1 / x.shape[axis]),
            ),
            "sum_square": (
                lambda: self.folded("ReduceSum", self.square(x), axis),
                lambda: self.folded("ReduceSumSquare", x, axis),
            ),
        }
        return self.spell(*ways[kind])

    def folded(self, operator: str, x: Value, axis: int) -> Value:
        """One reduction node, of the axis where it is or moved to another place."""
        kept = tuple(1 if i == axis else extent for i, extent in enumerate(x.shape))
        if self.pick(False, False, True):
            order = [axis, *[i for i in range(x.rank) if i != axis]]
            moved = self.folded(operator, self.transpose(x, order), 0)
            return self.transpose(moved, [order.index(i) for i in range(x.rank)])
        axes = self.integers(self.pick(axis, axis - x.rank))
        if self.pick(True, True, False):
            return Value(self.build.node(operator, x.name, axes, keepdims=1), kept)
        dropped = self.build.node(operator, x.name, axes, keepdims=0)
        if self.pick(True, False):
            return Value(self.build.node("Unsqueeze", dropped, self.integers(axis)), kept)
        return Value(self.build.node("Reshape", dropped, self.integers(*kept)), kept)

    def log_sum_exp(self, x: Value, axis: int) -> Value:
        return self.spell(
            lambda: self.folded("ReduceLogSumExp", x, axis),
            lambda: self.stable_log_sum_exp(x, axis),
        )

    def stable_log_sum_exp(self, x: Value, axis: int) -> Value:
        top = self.reduce("max", x, axis)
        weights = self.unary("Exp", self.sub(x, top))
        return self.add(self.unary("Log", self.reduce("sum", weights, axis)), top)

    def softmax(self, x: Value, axis: int) -> Value:
        return self.spell(
            lambda: Value(self.build.node("Softmax", x.name, axis=self.pick(axis, axis - x.rank)), x.shape),
            lambda: self.handwritten_softmax(x, axis),
            lambda: self.unary("Exp", self.log_softmax(x, axis)),
        )

    def handwritten_softmax(self, x: Value, axis: int) -> Value:
        weights = self.unary("Exp", self.sub(x, self.reduce("max", x, axis)))
        return self.div(weights, self.reduce("sum", weights, axis))

    def log_softmax(self, x: Value, axis: int) -> Value:
        return self.spell(
            lambda: Value(self.build.node("LogSoftmax", x.name, axis=self.pick(axis, axis - x.rank)), x.shape),
            lambda: self.sub(x, self.stable_log_sum_exp(x, axis)),
        )

    # ---- products
    def product(self, a: Value, b: Value) -> Value:
        """Matrix product of the last two axes; the others are equal."""
        letters = "abcdefg"[: a.rank - 2]
        shape = (*a.shape[:-1], b.shape[-1])
        swap = [*range(a.rank - 2), a.rank - 1, a.rank - 2]
        equation = f"{letters}xy,{letters}yz->{letters}xz"
        return self.spell(
            lambda: Value(self.build.node("MatMul", a.name, b.name), shape),
            lambda: Value(self.build.node("Einsum", a.name, b.name, equation=equation), shape),
            lambda: self.transpose(self.flat_product(self.transpose(b, swap), self.transpose(a, swap)), swap),
        )

    def flat_product(self, a: Value, b: Value) -> Value:
        """The product of matrices whose leading axes are one."""
        lead = math.prod(a.shape[:-2])
        flat = [self.build.node("Reshape", v.name, self.integers(lead, *v.shape[-2:])) for v in (a, b)]
        shape = (*a.shape[:-1], b.shape[-1])
        return Value(self.build.node("Reshape", self.build.node("MatMul", *flat), self.integers(*shape)), shape)
