"""NumPy evaluation of expressions."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from redfuser.expr import OPERATORS, Const, Tensor, axis, cast, index, load, number, op
from redfuser.expr.evaluate import evaluate, open_mesh

ROW, COLUMN = axis("i", 3), axis("j", 4)
X = Tensor("x", (3, 4), "float32")
DATA = {X: np.arange(12, dtype=np.float32).reshape(3, 4) - 5}
MESH = open_mesh((ROW, COLUMN))


def test_every_operator_has_a_meaning() -> None:
    from redfuser.expr.evaluate import _FUNCTIONS

    assert set(OPERATORS) == set(_FUNCTIONS) | {"cast", "value"}


def test_loads_broadcast_in_any_index_order() -> None:
    assert np.array_equal(evaluate(load(X, ROW, COLUMN), DATA, MESH), DATA[X])
    swapped = evaluate(load(X, ROW, COLUMN), DATA, open_mesh((COLUMN, ROW)))
    assert np.array_equal(swapped, DATA[X].T)
    diagonal = evaluate(load(X, ROW, ROW), DATA, MESH)
    assert diagonal.shape == (3, 1) and np.array_equal(diagonal[:, 0], np.diagonal(DATA[X]))


def test_part_of_an_axis() -> None:
    mesh = open_mesh((ROW, COLUMN), {COLUMN: range(1, 3)})
    assert np.array_equal(evaluate(load(X, ROW, COLUMN), DATA, mesh), DATA[X][:, 1:3])


def test_an_index_out_of_range_behind_a_select_is_harmless() -> None:
    shifted = op("sub", COLUMN, index(2))
    value = op("select", op("ge", shifted, index(0)), load(X, ROW, shifted), number(0, "float32"))
    expected = np.concatenate([np.zeros((3, 2)), DATA[X][:, :2]], axis=1)
    assert np.array_equal(evaluate(value, DATA, MESH), expected)


def test_nan_and_infinity_follow_ieee_without_warnings() -> None:
    minus_inf = Const("float32", -math.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(evaluate(op("sub", minus_inf, minus_inf), {}, {}))
        assert evaluate(op("exp", minus_inf), {}, {}) == 0
        assert np.isnan(evaluate(op("max", Const("float32", math.nan), minus_inf), {}, {}))
        guarded = op("select", op("isnan", op("sub", minus_inf, minus_inf)), number(0, "float32"), minus_inf)
        assert evaluate(guarded, {}, {}) == 0


def test_stated_dtypes_round_and_float64_does_not() -> None:
    value = op("add", cast(number(2048, "float32"), "float16"), number(1, "float16"))
    assert evaluate(value, {}, {}) == 2048
    assert evaluate(value, {}, {}, "float64") == 2049
    assert evaluate(value, {}, {}).dtype == np.float16


def test_casts() -> None:
    assert evaluate(cast(number(-2.7, "float32"), "int32"), {}, {}) == -2
    assert evaluate(cast(number(1e9, "float32"), "float8_e4m3fn"), {}, {}, "float64") == 448
    assert evaluate(cast(number(17, "float32"), "float8_e4m3fn"), {}, {}, "float64") == 16
    assert evaluate(cast(number(0.5, "float32"), "bool"), {}, {})


def test_integer_division_truncates_and_rounding_is_half_to_even() -> None:
    assert evaluate(op("div", index(-7), index(2)), {}, {}) == -3
    assert evaluate(op("floordiv", index(-7), index(2)), {}, {}) == -4
    assert evaluate(op("round", number(2.5, "float32")), {}, {}) == 2


def test_erf_and_sigmoid() -> None:
    assert evaluate(op("erf", number(0.5, "float64")), {}, {}) == pytest.approx(math.erf(0.5), abs=1e-16)
    assert evaluate(op("sigmoid", number(-1000, "float64")), {}, {}) == 0


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match="float64"):
        evaluate(number(1, "float32"), {}, {}, "float32")


@pytest.mark.parametrize(("to", "least"), [("int8", 0), ("uint8", 0), ("int32", -(2**31))])
def test_a_nan_becomes_an_integer_as_on_x86(to: str, least: int) -> None:
    assert evaluate(cast(number(math.nan, "float32"), to), {}, {}) == least
    assert evaluate(cast(number(math.nan, "float32"), to), {}, {}, "float64") == least
