"""Signs read off a cascade."""

from __future__ import annotations

import itertools

import pytest

from redfuser.algebra.formulas.assumptions import NONNEGATIVE, POSITIVE, ZERO, Sign, signs
from redfuser.expr import Expr, cast, number, op
from redfuser.expr.evaluate import evaluate
from tests.algebra.build import Builder, literal, score, softmax, tensor


def test_results_of_reductions_follow_their_maps() -> None:
    build = Builder()
    m, t, _ = softmax(build, score())
    q = build.reduce("q", "sum", op("mul", score("x"), score("x")))
    a = build.reduce("a", "max", op("abs", score("x")))
    sign = signs(build.build())
    assert sign(t).is_positive and not sign(m).is_nonnegative
    assert sign(q).is_nonnegative and not sign(q).is_positive
    assert sign(op("add", q, literal(1e-5))).is_positive
    assert sign(op("max", a, literal(1e-6))).is_positive and not sign(a).is_positive
    assert sign(op("sqrt", q)).is_nonnegative and sign(op("rsqrt", q)).is_positive
    assert not sign(op("sub", q, a)).is_nonnegative


VALUES = (-2.0, -1.0, 0.0, 1.0, 2.0)
BINARY = ("add", "sub", "mul", "max", "min")
UNARY = ("abs", "exp", "sigmoid", "tanh", "floor", "round", "sinh", "erf", "cosh")


def sign_of(value: float) -> Sign:
    return Sign(value < 0, value == 0, value > 0)


@pytest.mark.parametrize("name", [*BINARY, *UNARY])
def test_every_rule_covers_what_evaluation_gives(name: str) -> None:
    sign = signs(Builder().build())
    for args in itertools.product(VALUES, repeat=2 if name in BINARY else 1):
        expr = op(name, *(number(x, "float64") for x in args))
        found, allowed = sign_of(float(evaluate(expr, {}, {}))), sign(expr)
        assert (found | allowed) == allowed, expr


@pytest.mark.parametrize(
    "expr, expected",
    [
        (tensor("mask", dtype="bool"), NONNEGATIVE),
        (cast(tensor("mask", dtype="bool"), "float32"), NONNEGATIVE),
        (literal(0), ZERO),
        (op("pow", score(), literal(2)), NONNEGATIVE),
        (op("select", tensor("mask", dtype="bool"), literal(1), literal(2)), POSITIVE),
    ],
    ids=str,
)
def test_leaves_and_powers(expr: Expr, expected: Sign) -> None:
    found = signs(Builder().build())(expr)
    assert (found | expected) == expected


def test_nothing_is_known_of_an_input_or_an_odd_power() -> None:
    sign = signs(Builder().build())
    assert not sign(score()).is_nonnegative and not sign(op("pow", score(), literal(3))).is_nonnegative
