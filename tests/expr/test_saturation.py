"""Which casts are of numbers held within the type, and what a NaN becomes."""

from __future__ import annotations

import pytest

from redfuser.expr import Const, Expr, Tensor, cast, load, number, op
from redfuser.expr.saturation import of_nan, saturation, truncates

X = load(Tensor("x", (4,), "float32"), number(0, "int64"))


def held(low: Expr, high: Expr, to: str, value: Expr = X) -> Expr:
    return cast(op("min", op("max", value, low), high), to)


@pytest.mark.parametrize(("low", "to", "drops"), [(0, "uint8", True), (-128, "int8", False), (-127, "int8", False)])
def test_a_cast_of_a_number_held_within_bounds(low: int, to: str, drops: bool) -> None:
    least, most = number(low, "float32"), number(100, "float32")
    found = saturation(held(least, most, to))
    assert found is not None and found == (X, least, most) and found.drops_nan(to) is drops


@pytest.mark.parametrize(
    "node",
    [
        held(X, number(127, "float32"), "int8"),
        held(number(-128, "float32"), X, "int8"),
        held(number(0, "float32"), number(255, "float32"), "float16"),
        cast(op("max", X, number(0, "float32")), "uint8"),
        cast(X, "uint8"),
        X,
    ],
)
def test_others_are_not(node: Expr) -> None:
    assert saturation(node) is None


@pytest.mark.parametrize(("dtype", "least"), [("int8", 0), ("uint8", 0), ("int32", -(2**31)), ("int64", -(2**63))])
def test_what_a_nan_becomes(dtype: str, least: int) -> None:
    assert of_nan(dtype) == least


def test_conversions_between_integers_truncate_nothing() -> None:
    assert truncates(cast(X, "int8")) and not truncates(cast(X, "float16"))
    assert not truncates(cast(Const("int64", 3), "int8")) and not truncates(cast(X, "bool"))
