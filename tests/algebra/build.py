"""Cascades built by hand for the algebra's tests."""

from __future__ import annotations

from collections.abc import Callable

from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Axis, Const, Expr, Tensor, axis, cast, load, loads, number, op

ROWS, LENGTH, DEPTH = 3, 24, 4
ROW, ITEM, WIDTH = axis("i", ROWS), axis("l", LENGTH), axis("d", DEPTH)
F32 = "float32"


def tensor(name: str, *axes: Axis, dtype: str = F32) -> Expr:
    """A load of the input ``name`` at ``axes``."""
    return load(Tensor(name, tuple(a.extent for a in axes), dtype), *axes)


def score(name: str = "s", dtype: str = F32) -> Expr:
    """An input that varies by row and element."""
    return tensor(name, ROW, ITEM, dtype=dtype)


def literal(value: float, dtype: str = F32) -> Const:
    """A constant."""
    return number(value, dtype)


class Builder:
    """Collects reductions over one axis; ``build`` makes the cascade, whose outputs are their results."""

    def __init__(self, over: Axis = ITEM) -> None:
        self.over = over
        self.reductions: list[Reduction] = []

    def reduce(self, name: str, combiner: str, element: Expr, axes: tuple[Axis, ...] = (ROW,)) -> Expr:
        """Add a reduction; returns its value."""
        result = Tensor(name, tuple(a.extent for a in axes), element.dtype)
        self.reductions.append(Reduction(result, combiner, axes, self.over, element))
        return self.reductions[-1].value

    def build(self, name: str = "cascade") -> Cascade:
        """The cascade of everything reduced so far."""
        results = {r.result for r in self.reductions}
        used = [node.tensor for r in self.reductions for node in loads(r.map)]
        inputs = tuple(dict.fromkeys(t for t in used if t not in results))
        outputs = tuple(
            Output(Tensor(f"out_{r.result.name}", r.result.shape, r.result.dtype), r.axes, r.axes, r.value)
            for r in self.reductions
        )
        cascade = Cascade(name, (ROW,), self.over, inputs, (), tuple(self.reductions), outputs)
        cascade.verify()
        return cascade


def softmax(build: Builder, s: Expr) -> tuple[Expr, Expr, Expr]:
    """Adds max and sum; returns (m, t, e)."""
    m = build.reduce("m", "max", s)
    e = op("exp", op("sub", s, m))
    return m, build.reduce("t", "sum", e), e


def attention(s: Expr | None = None, wrap: Callable[[Expr], Expr] = lambda p: p) -> Cascade:
    """softmax(s) · v, with ``wrap`` around the probabilities."""
    build = Builder()
    _, t, e = softmax(build, score() if s is None else s)
    v = tensor("v", ITEM, WIDTH)
    build.reduce("o", "sum", op("mul", wrap(op("div", e, t)), v), (ROW, WIDTH))
    return build.build("attention")


def nan_guard(p: Expr) -> Expr:
    """The exporter's guard as detection reads it."""
    return op("select", op("lt", literal(0), cast(op("isnan", p), F32)), literal(0), p)


def mean_of(build: Builder, x: Expr, name: str = "r") -> Expr:
    """Adds the sum; returns the mean."""
    return op("div", build.reduce(name, "sum", x), literal(LENGTH))


def moment(power: int) -> Cascade:
    """Σ(x - μ)^power."""
    build = Builder()
    x = score("x")
    centred = op("sub", x, mean_of(build, x))
    element = centred
    for _ in range(power - 1):
        element = op("mul", element, centred)
    build.reduce("c", "sum", element)
    return build.build(f"moment{power}")
