"""The table of cascades: what each is, and the verdict it must get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from redfuser.cascade.model import Cascade
from redfuser.expr import cast, op
from tests.algebra.build import (
    LENGTH,
    attention,
    literal,
    moment,
    nan_guard,
    score,
    tensor,
)
from tests.algebra.constructions import (
    WEIGHT,
    X,
    Y,
    add,
    after,
    beside_its_element,
    capped,
    cosine,
    covariance,
    div,
    inertia,
    largest_probability,
    layer_norm_linear,
    magnitude,
    many_angles,
    masked,
    min_max,
    mul,
    over_softmax,
    quantised,
    rms_norm_linear,
    same,
    sink,
    slope_between_means,
    softmax_one,
    square,
    standardised,
    statistics,
    statistics_of_log_softmax,
    sub,
    sum_exp,
    three_deep,
    to_fp8,
    to_int8,
    two_independent,
    weighted_variance,
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
    Case("a mean beside its own element", beside_its_element, FINITE, 3),
    Case("a slope that vanishes where means meet", slope_between_means, FINITE, 3),
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
