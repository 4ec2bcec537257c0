"""How the cascades of the table are built."""

from __future__ import annotations

import math
from collections.abc import Callable

from redfuser.cascade.model import Cascade
from redfuser.expr import Const, Expr, cast, index, op
from tests.algebra.build import (
    ITEM,
    LENGTH,
    ROW,
    WIDTH,
    Builder,
    literal,
    mean_of,
    score,
    softmax,
    tensor,
)


def sub(a: Expr, b: Expr) -> Expr:
    return op("sub", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    return op("mul", a, b)


def div(a: Expr, b: Expr) -> Expr:
    return op("div", a, b)


def add(a: Expr, b: Expr) -> Expr:
    return op("add", a, b)


def square(a: Expr) -> Expr:
    return mul(a, a)


X, Y, WEIGHT = score("x"), score("y"), tensor("w", ITEM, WIDTH)


def over_softmax(element: Callable[[Expr, Expr, Expr], Expr], s: Expr | None = None) -> Callable[[], Cascade]:
    """A sum of ``element(p, m, t)`` with p the probabilities."""

    def make() -> Cascade:
        build = Builder()
        m, t, e = softmax(build, score() if s is None else s)
        build.reduce("o", "sum", element(div(e, t), m, t))
        return build.build()

    return make


def after(
    combiner: str, element: Callable[[Expr], Expr], then: str, last: Callable[[Expr, Expr], Expr]
) -> Callable[[], Cascade]:
    """Two reductions over x: the second map sees the first result."""

    def make() -> Cascade:
        build = Builder()
        first = build.reduce("r", combiner, element(X))
        second = last(X, first)
        axes = (ROW, WIDTH) if "d" in str(second) else (ROW,)
        build.reduce("o", then, second, axes)
        return build.build()

    return make


def same(x: Expr) -> Expr:
    return x


def magnitude(x: Expr) -> Expr:
    return op("abs", x)


def statistics(largest: int) -> Callable[[], Cascade]:
    """Mean and all central moments up to ``largest`` in one pass."""

    def make() -> Cascade:
        build = Builder()
        centred = sub(X, mean_of(build, X))
        power = centred
        for order in range(2, largest + 1):
            power = mul(power, centred)
            build.reduce(f"c{order}", "sum", power)
        return build.build()

    return make


def standardised(power: int) -> Cascade:
    build = Builder()
    centred = sub(X, mean_of(build, X))
    variance = build.reduce("v", "sum", square(centred))
    z = div(centred, op("sqrt", add(div(variance, literal(LENGTH)), literal(1e-5))))
    element = z
    for _ in range(power - 1):
        element = mul(element, z)
    build.reduce("o", "sum", element)
    return build.build()


def layer_norm_linear() -> Cascade:
    build = Builder()
    centred = sub(X, mean_of(build, X))
    variance = build.reduce("v", "sum", square(centred))
    scale = op("rsqrt", add(div(variance, literal(LENGTH)), literal(1e-5)))
    build.reduce("o", "sum", mul(mul(centred, scale), WEIGHT), (ROW, WIDTH))
    return build.build()


def rms_norm_linear() -> Cascade:
    build = Builder()
    squares = build.reduce("q", "sum", square(X))
    scale = op("rsqrt", add(div(squares, literal(LENGTH)), literal(1e-5)))
    gain = tensor("gain", ITEM)
    build.reduce("o", "sum", mul(mul(mul(X, scale), gain), WEIGHT), (ROW, WIDTH))
    return build.build()


def covariance() -> Cascade:
    build = Builder()
    x, y = mean_of(build, X, "rx"), mean_of(build, Y, "ry")
    build.reduce("o", "sum", mul(sub(X, x), sub(Y, y)))
    return build.build()


def beside_its_element() -> Cascade:
    """y and y-μ are independent, except where μ is 0: of the derivatives only y-μ and 1 are a basis everywhere."""
    build = Builder()
    x, y = mean_of(build, X, "rx"), mean_of(build, Y, "ry")
    spread = square(sub(Y, y))
    build.reduce("o", "sum", add(mul(Y, sub(X, x)), add(spread, spread)))
    return build.build()


def slope_between_means() -> Cascade:
    """(x-μ)(y-μ) - (x-μ)(y-ν) = (x-μ)(ν-μ) is no member of any basis where μ = ν."""
    build = Builder()
    x, y = mean_of(build, X, "rx"), mean_of(build, Y, "ry")
    gap = sub(mul(sub(X, x), sub(Y, x)), mul(sub(X, x), sub(Y, y)))
    build.reduce("o", "sum", add(literal(0.25), gap))
    return build.build()


def inertia() -> Cascade:
    """Planar moment of inertia about the centre of mass."""
    build = Builder()
    mass = score("mass")
    total = build.reduce("total", "sum", mass)
    cx = div(build.reduce("sx", "sum", mul(mass, X)), total)
    cy = div(build.reduce("sy", "sum", mul(mass, Y)), total)
    build.reduce("o", "sum", mul(mass, add(square(sub(X, cx)), square(sub(Y, cy)))))
    return build.build()


def weighted_variance() -> Cascade:
    build = Builder()
    _, t, e = softmax(build, score())
    p, value = div(e, t), tensor("v", ITEM, WIDTH)
    mean = build.reduce("u", "sum", mul(p, value), (ROW, WIDTH))
    build.reduce("o", "sum", mul(p, square(sub(value, mean))), (ROW, WIDTH))
    return build.build()


def cosine() -> Cascade:
    build = Builder()
    a = op("sqrt", build.reduce("a", "sum", square(X)))
    b = op("sqrt", build.reduce("b", "sum", square(Y)))
    build.reduce("o", "sum", mul(div(X, a), div(Y, b)))
    return build.build()


def min_max() -> Cascade:
    build = Builder()
    low = build.reduce("low", "min", X)
    width = build.reduce("range", "max", sub(X, low))
    build.reduce("o", "sum", mul(div(sub(X, low), width), WEIGHT), (ROW, WIDTH))
    return build.build()


def sink() -> Cascade:
    build = Builder()
    column = tensor("sink", ROW)
    top = op("max", build.reduce("m", "max", score()), column)
    e = op("exp", sub(score(), top))
    t = add(build.reduce("t", "sum", e), op("exp", sub(column, top)))
    build.reduce("o", "sum", mul(div(e, t), tensor("v", ITEM, WIDTH)), (ROW, WIDTH))
    return build.build()


def softmax_one() -> Cascade:
    build = Builder()
    m, t, e = softmax(build, score())
    denominator = add(t, op("exp", sub(literal(0), m)))
    build.reduce("o", "sum", mul(div(e, denominator), tensor("v", ITEM, WIDTH)), (ROW, WIDTH))
    return build.build()


def two_independent() -> Cascade:
    build = Builder()
    softmax(build, score())
    centred = sub(X, mean_of(build, X))
    build.reduce("c", "sum", square(centred))
    return build.build()


def three_deep() -> Cascade:
    """Softmax, its mean, and a distance scaled by that mean."""
    build = Builder()
    _, t, e = softmax(build, score())
    mean = build.reduce("u", "sum", mul(div(e, t), X))
    scale = build.reduce("g", "sum", op("abs", div(Y, op("sqrt", square(mean)))))
    build.reduce("o", "sum", div(Y, add(scale, literal(1))))
    return build.build()


def statistics_of_log_softmax() -> Cascade:
    """Σ exp(q)·(q - y) with q the log-probabilities: KL divergence against y."""
    build = Builder()
    m, t, _ = softmax(build, score())
    q = sub(sub(score(), m), op("log", t))
    build.reduce("o", "sum", mul(op("exp", q), sub(q, Y)))
    return build.build()


def quantised(rounding: Callable[[Expr], Expr], levels: float) -> Callable[[], Cascade]:
    def make() -> Cascade:
        build = Builder()
        scale = div(build.reduce("amax", "max", magnitude(X)), literal(levels))
        build.reduce("o", "sum", mul(rounding(div(X, scale)), WEIGHT), (ROW, WIDTH))
        return build.build()

    return make


def to_fp8(x: Expr) -> Expr:
    return cast(cast(x, "float8_e4m3fn"), "float32")


def to_int8(x: Expr) -> Expr:
    return cast(cast(op("round", x), "int8"), "float32")


def masked(s: Expr) -> Expr:
    return op("select", op("le", ITEM, add(op("mul", ROW, index(8)), index(3))), s, Const("float32", -math.inf))


def capped(s: Expr) -> Expr:
    return mul(op("tanh", div(s, literal(30))), literal(30))


def many_angles() -> Cascade:
    build = Builder()
    angles = [op("cos", sub(X, build.reduce(f"r{n}", "max", score(f"x{n}")))) for n in range(4)]
    build.reduce("o", "sum", mul(mul(angles[0], angles[1]), mul(angles[2], angles[3])))
    return build.build()


def sum_exp(x: Expr) -> Expr:
    return op("exp", x)


def largest_probability() -> Cascade:
    build = Builder()
    _, t, e = softmax(build, score())
    build.reduce("o", "max", div(e, t))
    return build.build()
