"""Expressions as vector code: accuracy of elementary functions, edges, types, operators."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from redfuser.codegen.cpu import generate
from redfuser.codegen.refusal import Refused
from redfuser.expr import Const, Expr, cast, load, number, op
from redfuser.expr.evaluate import convert
from redfuser.expr.saturation import of_nan
from tests.codegen.cpu.programs import assert_matches, elementwise, run, target, ulps

Array = np.ndarray[Any, Any]

EDGES = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    1e-45,
    1e-38,
    3.4e38,
    -3.4e38,
    88.72,
    88.73,
    -87.3,
    -104.0,
]
DEVICES = ["cpu", "cpu-avx2", "cpu-x86-64"]


def apply(name: str, x: Array, device: str) -> Array:
    with np.errstate(all="ignore"):
        return run(elementwise(lambda a: op(name, a), x.size, str(x.dtype)), {"a": x}, device)["y"]


def reference(name: str, x: Array) -> Array:
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        if name == "erf":
            return np.vectorize(math.erf)(wide)
        if name == "sigmoid":
            return 1 / (1 + np.exp(-wide))
        return 1 / np.sqrt(wide) if name == "rsqrt" else getattr(np, name)(wide)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("name", "low", "high", "bound"),
    [
        ("exp", -87.0, 88.7, 1.5),
        ("exp2", -125.0, 127.9, 1.5),
        ("log", 1e-30, 1e30, 1.5),
        ("tanh", -9.0, 9.0, 2.0),
        ("erf", -4.0, 4.0, 2.0),
        ("sigmoid", -80.0, 80.0, 3.0),
    ],
)
def test_functions_are_accurate(name: str, low: float, high: float, bound: float, device: str) -> None:
    random = np.random.default_rng(0)
    near = random.uniform(-1, 1, 2000) if low < 0 else random.uniform(0.5, 2, 2000)
    far = random.uniform(low, high, 2000) if low < 0 else np.exp(random.uniform(math.log(low), math.log(high), 2000))
    x = np.concatenate([near, far]).astype(np.float32)
    assert ulps(apply(name, x, device), reference(name, x)) <= bound


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log2", "tanh", "erf", "sigmoid", "sqrt", "rsqrt"])
def test_functions_at_the_edges(name: str, device: str) -> None:
    x = np.array(EDGES, dtype=np.float32)
    got = apply(name, x, device)
    with np.errstate(over="ignore"):
        rounded = reference(name, x).astype(np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(rounded))
    np.testing.assert_allclose(got, rounded, rtol=1e-6, atol=2e-45)


def test_exponentials_below_the_normal_range_are_zero() -> None:
    """All are less than the least normal number; a processor would take a hundred times as long to round them."""
    x = np.array([-87.33, -87.34, -95.0, -103.0], np.float32)
    assert (apply("exp", x, "cpu") > 0).tolist() == [True, False, False, False]


def test_exp_of_minus_infinity_is_zero() -> None:
    x = np.array([-math.inf, -1e30, -200.0], dtype=np.float32)
    assert (apply("exp", x, "cpu") == 0).all()


@pytest.mark.parametrize(
    "name", ["log1p", "sin", "cos", "tan", "sinh", "cosh", "asin", "acos", "atan", "isnan", "isinf"]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rare_functions(name: str, dtype: str) -> None:
    x = np.array([0.0, 0.25, -0.5, 0.999, math.nan, 0.75, -0.125], dtype=dtype)
    np.testing.assert_allclose(apply(name, x, "cpu"), reference(name, x), rtol=1e-6)


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid"])
def test_functions_of_float64_and_float16(name: str) -> None:
    x = np.linspace(0.1, 5, 37)
    np.testing.assert_allclose(apply(name, x, "cpu"), reference(name, x), rtol=1e-14)
    half = x.astype(np.float16)
    np.testing.assert_allclose(apply(name, half, "cpu"), reference(name, half), rtol=1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_is_rounded_before_anything_is_subtracted(dtype: str, device: str) -> None:
    x = (np.random.default_rng(0).standard_normal(37) * 1e6).astype(dtype)
    scaled = x * x.dtype.type(0.3)  # what a maximum is taken of
    program = elementwise(lambda a, b: op("sub", op("mul", a, number(0.3, dtype)), b), x.size, dtype, dtype)
    assert (run(program, {"a": x, "b": scaled}, device)["y"] == 0).all()
    program = elementwise(lambda a, b: op("sub", b, op("pow", a, number(2, dtype))), x.size, dtype, dtype)
    assert (run(program, {"a": x, "b": x * x}, device)["y"] == 0).all()


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("device", DEVICES)
def test_extrema_hand_on_nan(name: str, device: str) -> None:
    nan = math.nan
    a = np.array([1, nan, 3, nan, -math.inf, math.inf, 0, 5] * 5, dtype=np.float32)
    b = np.array([2, 2, nan, nan, 1, 1, 0, 4] * 5, dtype=np.float32)
    y = run(elementwise(lambda x, z: op(name, x, z), a.size, "float32", "float32"), {"a": a, "b": b}, device)["y"]
    np.testing.assert_array_equal(y, (np.maximum if name == "max" else np.minimum)(a, b))


def _truth(condition: Expr) -> Expr:
    return op("select", condition, number(1, "float32"), number(0, "float32"))


COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_and_their_negations_with_nan(name: str) -> None:
    a = np.array([1, 2, 2, math.nan, 1, math.nan, 0.0], dtype=np.float32)
    b = np.array([2, 1, 2, 1, math.nan, math.nan, -0.0], dtype=np.float32)
    feeds = {"a": a, "b": b}
    assert_matches(elementwise(lambda x, y: _truth(op(name, x, y)), 7, "float32", "float32"), feeds)
    assert_matches(elementwise(lambda x, y: _truth(op("not", op(name, x, y))), 7, "float32", "float32"), feeds)


def test_logic_on_bools_in_memory() -> None:
    random = np.random.default_rng(0)
    feeds = {name: random.random(50) < 0.5 for name in "abc"}

    def value(a: Expr, b: Expr, c: Expr) -> Expr:
        return _truth(op("or", op("and", a, op("not", b)), op("not", op("or", b, c))))

    assert_matches(elementwise(value, 50, "bool", "bool", "bool"), feeds)
    assert_matches(elementwise(lambda a, b: op("and", a, b), 50, "bool", "bool"), {n: feeds[n] for n in "ab"})


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("float32", "int32"),
        ("float32", "float16"),
        ("float16", "float32"),
        ("int64", "float32"),
        ("int8", "float32"),
        ("bool", "float32"),
        ("float32", "bool"),
        ("float32", "float64"),
        ("bool", "int64"),
    ],
)
def test_casts(source: str, to: str) -> None:
    x = np.array([0, 1, -2.7, 100.5, 3.5, 0.0, 127], dtype=np.float32).astype(source)
    assert_matches(elementwise(lambda a: cast(a, to), 7, source), {"a": x})


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("to", ["int8", "uint8", "int16", "uint16", "int32"])
def test_a_nan_becomes_an_integer(to: str, device: str) -> None:
    x = np.array([math.nan, 3, -2.7, 100.5, math.nan, 7] * 7, dtype=np.float32)
    x = np.maximum(x, 0) if to.startswith("uint") else x  # keeps a NaN
    y = run(elementwise(lambda a: cast(a, to), x.size, "float32"), {"a": x}, device)["y"]
    np.testing.assert_array_equal(y, np.where(np.isnan(x), of_nan(to), np.nan_to_num(x)).astype(to))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("to", ["int8", "uint8"])
def test_what_is_held_within_a_type_saturates(to: str, device: str) -> None:
    """As quantisation ends, and then goes on: code for a NaN must not depend on what uses the number."""
    limits = np.iinfo(to)
    x = np.array([math.nan, math.inf, -math.inf, 3, -200, 300, 1e30, -1e30, 5] * 5, dtype=np.float32)
    expected = np.where(np.isnan(x), 0, np.clip(np.nan_to_num(x), limits.min, limits.max))

    def held(a: Expr) -> Expr:
        low = op("max", a, number(limits.min, "float32"))
        return op(
            "sub", cast(cast(op("min", low, number(limits.max, "float32")), to), "float32"), number(79, "float32")
        )

    y = run(elementwise(held, x.size, "float32"), {"a": x}, device)["y"]
    np.testing.assert_array_equal(y, expected.astype(np.float32) - 79)


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 0.5, 1.7, 0.0])
def test_powers(exponent: float) -> None:
    x = np.array([0.5, 2, 3.25, 10, 1e-3, 7, 1.5] * 4, dtype=np.float32)
    assert_matches(elementwise(lambda a: op("pow", a, number(exponent, "float32")), x.size, "float32"), {"a": x})


@pytest.mark.parametrize("name", ["floordiv", "floormod", "div"])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_divisions(name: str, dtype: str) -> None:
    a = np.array([7, -7, 7, -7, 0, 5, 9], dtype=dtype)
    b = np.array([2, 2, -2, -2, 3, 7, 3], dtype=dtype)
    assert_matches(elementwise(lambda x, y: op(name, x, y), 7, dtype, dtype), {"a": a, "b": b})


def test_coordinates_are_values_too() -> None:
    def value(a: Expr) -> Expr:
        (i,) = load_indices(a)
        even = op("eq", op("floormod", i, Const("int64", 2)), Const("int64", 0))
        return op("select", even, a, cast(op("mul", i, Const("int64", 3)), "float32"))

    assert_matches(elementwise(value, 100, "float32"), {"a": np.arange(100, dtype=np.float32) / 7})


def load_indices(value: Expr) -> tuple[Expr, ...]:
    return value.children


def test_a_gather_through_a_table_is_clipped_like_the_reference() -> None:
    def value(a: Expr, b: Expr) -> Expr:
        assert hasattr(a, "tensor")
        return load(a.tensor, cast(b, "int64"))

    feeds = {"a": np.arange(40, dtype=np.float32), "b": np.array([0, 39, 7, -3, 100] * 8, dtype=np.int32)}
    assert_matches(elementwise(value, 40, "float32", "int32"), feeds)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_floats_of_8_bits_round_to_nearest_and_saturate(dtype: str, device: str) -> None:
    random = np.random.default_rng(0)
    grid = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, dtype)).astype(np.float32)
    middles = (grid[:-1] + grid[1:]) / 2
    x = np.concatenate([grid, middles, np.nextafter(middles, 0), random.normal(size=999) * 500, EDGES])
    x = x.astype(np.float32)
    found = run(elementwise(lambda a: cast(cast(a, dtype), "float32"), x.size, "float32"), {"a": x}, device)["y"]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, convert(x, dtype).astype(np.float32))


def _refuse(value: Callable[[Expr], Expr], dtype: str) -> None:
    with pytest.raises(Refused):
        run(elementwise(value, 8, dtype), {"a": np.ones(8, dtype=dtype)})


def test_what_has_no_code_is_refused() -> None:
    _refuse(lambda a: op("pow", a, Const("int32", 7)), "int32")


def _real(value: float) -> Expr:
    return number(value, "float32")


STEPS: dict[str, Callable[[Expr], Expr]] = {
    "clamps": lambda x: op("min", op("max", op("mul", x, _real(1.5)), _real(-3.0)), _real(3.0)),
    "bfloat16": lambda x: cast(cast(op("mul", x, _real(1.5)), "bfloat16"), "float32"),
    "float8": lambda x: cast(cast(op("mul", x, _real(1.5)), "float8_e4m3fn"), "float32"),
    "quotients": lambda x: op("floordiv", op("mul", x, _real(1.5)), _real(1.25)),
}


@pytest.mark.parametrize("step", STEPS)
def test_code_grows_with_the_number_of_operators_however_they_are_nested(step: str) -> None:
    """As chains of quantised operators nest them: each operand once, or code would grow by a factor with each step."""

    def size(steps: int) -> int:
        def value(x: Expr) -> Expr:
            for _ in range(steps):
                x = STEPS[step](x)
            return x

        return len(generate(elementwise(value, 64, "float32"), target()).script())

    assert size(12) - size(6) < 2 * (size(6) - size(0))
