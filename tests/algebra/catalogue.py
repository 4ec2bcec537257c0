"""The table of cascades: what each is, and the verdict it must get."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from redfuser.cascade.model import Cascade
from redfuser.expr import Const, Expr, cast, index, op
from tests.algebra.build import (
    ITEM,
    LENGTH,
    ROW,
    WIDTH,
    Builder,
    attention,
    literal,
    mean_of,
    moment,
    nan_guard,
    score,
    softmax,
    tensor,
)

RANK_1, FINITE = "rank-1", "finite-rank"


@dataclass(frozen=True)
class Case:
    """A cascade with its verdict: a form, or the code of the obstacle. ``rank`` is that of the last reduction."""

    name: str
    build: Callable[[], Cascade]
    verdict: str
    rank: int = 1
    numerics: str = "exact"


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


CASES: tuple[Case, ...] = (
    Case("softmax statistics", over_softmax(lambda p, m, t: p), RANK_1),
    Case("softmax + GEMM", attention, RANK_1),
    Case("softmax + GEMM, NaN guard", lambda: attention(wrap=nan_guard), RANK_1),
    Case("softmax + GEMM, causal", lambda: attention(masked(score())), RANK_1),
    Case("softmax + GEMM, soft-cap", lambda: attention(masked(capped(score()))), RANK_1),
    Case("softmax1", softmax_one, RANK_1),
    Case("sink column", sink, RANK_1),
    Case("temperature", lambda: attention(div(score(), tensor("T"))), RANK_1),
    Case("logsumexp", over_softmax(lambda p, m, t: op("exp", sub(score(), add(m, op("log", t))))), RANK_1),
    Case("unsafe softmax", after("sum", sum_exp, "sum", lambda x, r: mul(div(op("exp", x), r), WEIGHT)), RANK_1),
    Case("cross entropy", over_softmax(lambda p, m, t: mul(Y, sub(sub(score(), m), op("log", t)))), FINITE, 2),
    Case("entropy", over_softmax(lambda p, m, t: mul(p, sub(sub(score(), m), op("log", t)))), FINITE, 2),
    Case("entropy, p log p", over_softmax(lambda p, m, t: mul(p, op("log", p))), FINITE, 2),
    Case("KL divergence", statistics_of_log_softmax, FINITE, 2),
    Case("softmax-weighted mean", over_softmax(lambda p, m, t: mul(p, X)), RANK_1),
    Case("softmax-weighted variance", weighted_variance, FINITE, 3),
    Case("Gini impurity", over_softmax(lambda p, m, t: square(p)), RANK_1),
    Case("largest probability", lambda: largest_probability(), RANK_1),
    Case("variance", lambda: moment(2), FINITE, 3),
    Case("third moment", lambda: moment(3), FINITE, 4),
    Case("fourth moment", lambda: moment(4), FINITE, 5),
    Case("moments to the fourth in one pass", statistics(4), FINITE, 5),
    Case("skewness", lambda: standardised(3), FINITE, 4),
    Case("kurtosis", lambda: standardised(4), FINITE, 5),
    Case("layer norm + linear", layer_norm_linear, FINITE, 2),
    Case("RMS norm + linear", rms_norm_linear, RANK_1),
    Case("covariance", covariance, FINITE, 4),
    Case("moment of inertia", inertia, FINITE, 4),
    Case("cosine similarity", cosine, RANK_1),
    Case("L2 norm + GEMM", after("sum", square, "sum", lambda x, r: mul(div(x, op("sqrt", r)), WEIGHT)), RANK_1),
    Case("min-max", min_max, FINITE, 2),
    Case("range", after("min", same, "max", sub), RANK_1),
    Case("abs-max scaling", after("max", magnitude, "sum", lambda x, r: mul(div(x, r), WEIGHT)), RANK_1),
    Case(
        "abs-max scaling, clamped",
        after("max", magnitude, "max", lambda x, r: div(x, op("max", r, literal(1e-6)))),
        RANK_1,
    ),
    Case("L1 norm of a scaled row", after("max", magnitude, "sum", lambda x, r: op("abs", div(x, r))), RANK_1),
    Case(
        "harmonic normalisation",
        after("sum", lambda x: div(literal(1), x), "sum", lambda x, r: mul(x, div(literal(LENGTH), r))),
        RANK_1,
    ),
    Case(
        "geometric normalisation",
        after("sum", lambda x: op("log", op("exp", x)), "sum", lambda x, r: div(x, op("exp", div(r, literal(LENGTH))))),
        RANK_1,
    ),
    Case("shifted sum", after("max", same, "sum", add), FINITE, 2),
    Case("angle", after("max", same, "sum", lambda x, r: op("cos", sub(x, r))), FINITE, 2),
    Case(
        "exponential about the mean",
        after("sum", same, "sum", lambda x, r: op("exp", sub(x, div(r, literal(LENGTH))))),
        FINITE,
    ),
    Case("capped at an earlier minimum", after("min", same, "max", lambda x, r: op("min", x, r)), RANK_1),
    Case(
        "product of powers",
        after("max", magnitude, "prod", lambda x, r: op("pow", op("exp", div(x, literal(64))), r)),
        RANK_1,
    ),
    Case("count of the maximum", after("max", same, "sum", lambda x, r: cast(op("eq", x, r), "float32")), RANK_1),
    Case("two independent cascades", two_independent, FINITE, 3),
    Case("three deep", three_deep, RANK_1),
    Case(
        "mean absolute deviation",
        after("sum", same, "sum", lambda x, r: op("abs", sub(x, div(r, literal(LENGTH))))),
        "not-finite-rank",
    ),
    Case(
        "elements above the mean",
        after("sum", same, "sum", lambda x, r: cast(op("gt", x, div(r, literal(LENGTH))), "float32")),
        "not-finite-rank",
    ),
    Case("tanh of a difference", after("max", same, "sum", lambda x, r: op("tanh", sub(x, r))), "not-finite-rank"),
    Case(
        "Gaussian about the mean",
        after("sum", same, "sum", lambda x, r: op("exp", sub(literal(0), square(sub(x, r))))),
        "not-finite-rank",
    ),
    Case("learned temperature", after("max", magnitude, "sum", lambda x, r: op("exp", div(x, r))), "not-finite-rank"),
    Case("scale of unknown sign", after("sum", same, "max", lambda x, r: mul(x, r)), "not-separable"),
    Case(
        "power of a sum",
        after("sum", same, "sum", lambda x, r: op("pow", sub(x, r), literal(12))),
        "not-proved-in-budget",
    ),
    Case("product of many angles", many_angles, "not-proved-in-budget"),
    Case("int8 quantise + GEMM", quantised(to_int8, 127), "not-finite-rank"),
    Case("FP8 quantise + GEMM", quantised(to_fp8, 448), "not-finite-rank"),
    Case("int8 quantise + GEMM, relaxed", quantised(to_int8, 127), RANK_1, numerics="relaxed"),
    Case("FP8 quantise + GEMM, relaxed", quantised(to_fp8, 448), RANK_1, numerics="relaxed"),
)


def largest_probability() -> Cascade:
    build = Builder()
    _, t, e = softmax(build, score())
    build.reduce("o", "max", div(e, t))
    return build.build()
