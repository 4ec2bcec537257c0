"""Ranges of values: every value lies in its range, and NaN has none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redfuser.expr import Expr, Tensor, cast, load, number, op
from redfuser.expr.evaluate import evaluate
from redfuser.tile.strategies.skipping.intervals import Interval, interval_of

F32 = "float32"
LARGEST = float(np.finfo(np.float32).max)
INFINITE, FINITE = Tensor("a", (1,), F32), Tensor("b", (1,), F32)
A, B = (load(t, number(0, "int64")) for t in (INFINITE, FINITE))
RANGES = {A: Interval(-math.inf, 5.0), B: Interval(-3.0, 8.0)}


def constant(x: float) -> Expr:
    return number(x, F32)


LEAVES = st.sampled_from([A, B, constant(0), constant(-math.inf), constant(2.5), constant(-LARGEST)])
BINARY = st.sampled_from(["add", "sub", "mul", "div", "max", "min"])
UNARY = st.sampled_from(["exp", "exp2", "abs", "tanh", "sigmoid"])
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(op, BINARY, inner, inner)
        | st.builds(op, UNARY, inner)
        | st.builds(lambda c, a, b: op("select", op("gt", c, constant(1)), a, b), inner, inner, inner)
        | st.builds(lambda a: cast(cast(a, "float16"), F32), inner)
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.sampled_from([-math.inf, -7.0, 0.0, 5.0]), st.floats(-3, 8, width=32))
def test_every_value_lies_in_its_range(expr: Expr, first: float, second: float) -> None:
    found = interval_of(expr, RANGES.get)
    tensors = {INFINITE: np.array([first], np.float32), FINITE: np.array([second], np.float32)}
    value = float(evaluate(expr, tensors, {}).reshape(-1)[0])
    if found is not None:
        room = 1e-3 * abs(value) + 1e-3 if math.isfinite(value) else 0.0
        assert not math.isnan(value) and found.low - room <= value <= found.high + room


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (op("add", B, constant(-math.inf)), Interval(-math.inf, -math.inf)),
        (op("exp", op("add", A, constant(-math.inf))), Interval(0.0, 0.0)),
        (op("mul", op("exp", constant(-math.inf)), B), Interval(0.0, 0.0)),
        (op("select", number(1, "bool"), A, B), RANGES[A]),
        (op("mul", constant(2), constant(-LARGEST)), Interval(-math.inf, -LARGEST)),
    ],
)
def test_exact_ends(expr: Expr, expected: Interval) -> None:
    assert interval_of(expr, RANGES.get) == expected


@pytest.mark.parametrize(
    "expr",
    [
        op("sub", A, constant(-math.inf)),
        op("mul", op("exp", constant(-math.inf)), A),
        op("div", constant(1), B),
        op("log", B),
        constant(math.nan),
    ],
)
def test_what_may_be_nan_has_no_range(expr: Expr) -> None:
    assert interval_of(expr, RANGES.get) is None
