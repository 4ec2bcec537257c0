"""Cascades that differ in terms and factors alone get one form; what else they differ in keeps them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from redfuser.cascade.canonical import Canonical, canonicalise
from redfuser.cascade.identity import cascade_digest
from redfuser.cascade.literals import lift, literal_name
from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import Const, Expr, Tensor, axis, cast, load, number, op
from tests.cascade.reference import evaluate_cascade

ROW, L = axis("i", 3), axis("l", 8)
X = Tensor("x", (3, 8), "float32")
Value = Callable[[Expr, Expr], Expr]


def f32(value: float) -> Const:
    return Const("float32", value)


def cascade(name: str, value: Value) -> Cascade:
    """``y = value(x, max x)``."""
    largest = Reduction(Tensor("m", (3,), "float32"), "max", (ROW,), L, load(X, ROW, L))
    y = Tensor(f"y_{name}", (3, 8), "float32")
    output = Output(y, (ROW, L), (ROW, L), value(load(X, ROW, L), largest.value))
    return Cascade(name, (ROW,), L, (X,), (), (largest,), (output,))


def lifted(*values: Value) -> dict[str, Canonical]:
    return lift({f"c{n}": canonicalise(cascade(f"c{n}", value)) for n, value in enumerate(values)})


def quantise(scale: float, zero: float) -> Value:
    return lambda x, m: op("sub", op("add", op("div", op("sub", x, m), f32(scale)), f32(zero)), f32(zero))


def test_scales_and_zero_points_become_inputs() -> None:
    forms = lifted(quantise(0.25, 39.0), quantise(0.5, 55.0))
    assert list(forms) == ["c0", "c1"] and forms["c0"].cascade == forms["c1"].cascade
    common = forms["c0"].cascade
    common.verify()
    # The zero point is used twice, and one input.
    assert common.inputs[1:] == (Tensor("x1", (), "float32"), Tensor("x2", (), "float32")) == common.normal
    assert [form.literals for form in forms.values()] == [(f32(0.25), f32(39.0)), (f32(0.5), f32(55.0))]
    assert forms["c1"].inputs == ("x", literal_name(f32(0.5)), literal_name(f32(55.0)))
    assert forms["c1"].outputs == ("y_c1",)


def test_the_common_form_computes_what_each_cascade_does() -> None:
    values = quantise(0.25, 39.0), quantise(0.3, 55.0)
    data = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    for (name, form), value in zip(lifted(*values).items(), values, strict=True):
        numbers = {f"x{n}": np.float32(c.value) for n, c in enumerate(form.literals, 1)}
        (got,) = evaluate_cascade(form.cascade, {"x0": data, **numbers}, None).values()
        (expected,) = evaluate_cascade(cascade(name, value), {"x": data}, None).values()
        assert (got == expected).all()


def test_numbers_that_all_agree_on_stay() -> None:
    (form, _) = lifted(quantise(0.25, 39.0), quantise(0.5, 39.0)).values()
    assert form.literals == (f32(0.25),) and len(form.cascade.inputs) == 2


def test_one_number_in_one_cascade_may_be_two_in_another() -> None:
    (form, other) = lifted(quantise(2.0, 2.0), quantise(2.0, 3.0)).values()
    assert (form.literals, other.literals) == ((f32(2.0),), (f32(3.0),))


def test_equal_cascades_and_lone_ones_are_left_alone() -> None:
    assert not lifted(quantise(0.25, 39.0), quantise(0.25, 39.0))
    assert not lifted(quantise(0.25, 39.0), lambda x, m: op("exp", op("sub", x, m)))


@pytest.mark.parametrize(
    "value",
    [
        lambda n: lambda x, m: op("pow", op("sub", x, m), f32(n)),
        lambda n: lambda x, m: op("max", op("sub", x, m), f32(n)),
        lambda n: lambda x, m: op("select", op("lt", x, f32(n)), x, m),
        lambda n: lambda x, m: op("select", op("lt", op("mul", cast(L, "float32"), f32(n)), f32(4.0)), x, m),
        lambda n: lambda x, m: op("add", m, load(X, ROW, op("floormod", op("add", L, number(n, "int64")), L))),
        lambda n: lambda x, m: op("add", m, cast(op("add", L, number(n, "int64")), "float32")),
        lambda n: lambda x, m: op("add", op("sub", x, m), f32(0.0 if n == 2 else 1.0)),
        lambda n: lambda x, m: op("add", op("sub", x, m), f32(float("inf") if n == 2 else 1.0)),
        lambda n: lambda x, m: op("mul", op("sub", x, m), f32(1e-40 if n == 2 else 1.0)),
    ],
    ids=["exponent", "bound", "compared", "mask", "read", "position", "zero", "infinity", "subnormal"],
)
def test_other_numbers_keep_cascades_apart(value: Callable[[int], Value]) -> None:
    assert not lifted(value(2), value(3))
    # Where they agree, other numbers beside them are lifted.
    scaled = [lambda x, m, n=n: op("mul", value(2)(x, m), f32(n)) for n in (0.25, 0.5)]
    assert len(lifted(*scaled)) == 2


def test_a_condition_on_values_follows_their_numbers() -> None:
    def guarded(scale: float) -> Value:
        def value(x: Expr, m: Expr) -> Expr:
            scaled = op("mul", op("sub", x, m), f32(scale))
            return op("select", op("isnan", scaled), f32(0.0), scaled)

        return value

    (form, _) = lifted(guarded(0.25), guarded(0.5)).values()
    assert form.literals == (f32(0.25),)


def test_deep_expressions_with_shared_parts_take_no_time() -> None:
    def doubled(scale: float) -> Value:
        def value(x: Expr, m: Expr) -> Expr:
            for _ in range(200):
                x = op("select", op("lt", x, m), op("mul", x, f32(scale)), op("sub", x, m))
            return x

        return value

    (form, _) = lifted(doubled(0.25), doubled(0.5)).values()
    assert form.literals == (f32(0.25),)


def test_what_is_known_of_an_input_makes_another_kernel() -> None:
    (form, _) = lifted(quantise(0.25, 39.0), quantise(0.5, 39.0)).values()
    unknown = replace(form.cascade, normal=())
    assert cascade_digest(form.cascade) != cascade_digest(unknown)
    with pytest.raises(AssertionError, match="not all are inputs"):
        replace(form.cascade, normal=(Tensor("other", (), "float32"),)).verify()
