"""Scales that elements are rounded against, of rows that begin with zeros and whose values are small."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.algebra.certificates.replay import Replay, direct
from redfuser.cascade.model import Cascade
from redfuser.expr import Expr, cast, op
from redfuser.expr.evaluate import numpy_dtype
from tests.algebra.build import ITEM, LENGTH, ROW, WIDTH, Builder, literal, tensor
from tests.algebra.constructions import to_fp8, to_int8

Rounding = Callable[[Expr, Expr], Expr]
STREAM = (tuple(range(n, min(n + 5, LENGTH)) for n in range(0, LENGTH, 5)),)
SEGMENTS = (STREAM[0][:1], STREAM[0][1:2], STREAM[0][2:])


def quotient(x: Expr, s: Expr) -> Expr:
    return op("div", x, s)


#: what is summed of an element and its scale, and the smallest scale at which no part of it is infinite in float32
ROUNDINGS: dict[str, tuple[Rounding, float]] = {
    "round": (lambda x, s: op("round", quotient(x, s)), 0),
    "int8": (lambda x, s: to_int8(quotient(x, s)), 0),
    "FP8": (lambda x, s: to_fp8(quotient(x, s)), 0),
    "times the inverse": (lambda x, s: to_int8(op("mul", x, op("div", literal(1), s))), 2**-126),
    "divided again": (lambda x, s: op("div", to_int8(quotient(x, s)), s), 2**-100),
}


def rounded(rounding: Rounding, dtype: str = "float32", zero_point: bool = False) -> Cascade:
    build = Builder()
    x = tensor("x", ROW, ITEM, dtype=dtype)
    scale = op("div", build.reduce("amax", "max", op("abs", x)), literal(127, dtype))
    element = op("sub", x, build.reduce("least", "min", x)) if zero_point else x
    weight = tensor("w", ITEM, WIDTH, dtype=dtype)
    build.reduce("o", "sum", op("mul", cast(rounding(element, scale), dtype), weight), (ROW, WIDTH))
    return build.build()


def assert_streams(cascade: Cascade, size: float, zeros: int) -> None:
    """In the cascade's own types: within one rounding step of a few elements, of the 127 that the largest has."""
    generator = np.random.default_rng(0)
    x, w = (generator.uniform(-1, 1, t.shape) for t in cascade.inputs)
    x[:, :zeros] = 0
    dtype = numpy_dtype(cascade.inputs[0].dtype)
    tensors = {cascade.inputs[0]: (x * size).astype(dtype), cascade.inputs[1]: w.astype(dtype)}
    result, derivation = cascade.reductions[-1].result, derive(cascade, "relaxed")
    assert derivation.exactness == "reordered-rounding"
    whole = direct(cascade, tensors, None)[result].astype(np.float64)
    for cut in (STREAM, SEGMENTS):
        with np.errstate(all="ignore"):
            found = Replay(cascade, derivation, tensors, None).run(cut)[result].astype(np.float64)
        np.testing.assert_allclose(found, whole, rtol=0, atol=0.06 * np.abs(whole).max())


@pytest.mark.parametrize("zeros", [0, 5, 7, LENGTH - 1])
@pytest.mark.parametrize("size", [1e-40, 1e-38, 1e-36, 1e-25, 1e-10, 1, 1e30])
@pytest.mark.parametrize("name", ROUNDINGS)
def test_no_row_is_too_small_to_begin_with_zeros(name: str, size: float, zeros: int) -> None:
    rounding, least = ROUNDINGS[name]
    if size / 127 > least:
        assert_streams(rounded(rounding), size, zeros)


@pytest.mark.parametrize("zeros", [0, 7, LENGTH - 1])
@pytest.mark.parametrize("size", [1e-40, 1e-36, 1e-10, 1])
def test_elements_above_the_least(size: float, zeros: int) -> None:
    assert_streams(rounded(lambda x, s: op("round", quotient(x, s)), zero_point=True), size, zeros)


@pytest.mark.parametrize("zeros", [0, 7, LENGTH - 1])
@pytest.mark.parametrize(
    ("dtype", "size"), [("float16", 1e-4), ("float16", 1), ("bfloat16", 1e-36), ("float64", 1e-310)]
)
def test_other_types(dtype: str, size: float, zeros: int) -> None:
    assert_streams(rounded(lambda x, s: op("round", quotient(x, s)), dtype), size, zeros)


def test_what_is_rounded_beside_its_scale_is_coarse_by_the_scale_to_come_only() -> None:
    """The bound of the error holds of rows whose scale, another tensor's, is 0 in the first tiles."""
    build = Builder()
    x, y = tensor("x", ROW, ITEM), tensor("y", ROW, ITEM)
    scale = op("div", build.reduce("amax", "max", op("abs", x)), literal(127))
    build.reduce("o", "sum", op("round", quotient(y, scale)))
    cascade = build.build()
    generator = np.random.default_rng(0)
    x_values, y_values = (generator.uniform(-1e-9, 1e-9, t.shape).astype(np.float32) for t in cascade.inputs)
    x_values[:, :7] = 0
    tensors = dict(zip(cascade.inputs, (x_values, y_values), strict=True))
    found = Replay(cascade, derive(cascade, "relaxed"), tensors, None).run(STREAM)[cascade.reductions[-1].result]
    assert np.abs(found - direct(cascade, tensors)[cascade.reductions[-1].result]).max() <= LENGTH


def test_exact_forms_divide_before_they_saw_anything_by_one() -> None:
    build = Builder()
    x = tensor("x", ROW, ITEM)
    m = build.reduce("m", "max", x)
    e = op("exp", op("sub", x, m))
    p = op("div", e, build.reduce("t", "sum", e))
    build.reduce("h", "sum", op("mul", p, op("log", p)))
    base = derive(build.build(), "relaxed").recurrences[1].base
    assert base is not None and base.args[1] == literal(1)
