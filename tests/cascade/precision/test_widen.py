"""Half precision taken to float32."""

from __future__ import annotations

from redfuser.cascade.model import Cascade, Reduction
from redfuser.cascade.precision.widen import widen
from redfuser.expr import Expr, Tensor, cast, load, number, op
from tests.tile.build import ITEM, ROW, keep, tensor


def cascade_of(element: Expr, result: str) -> Cascade:
    total = Reduction(tensor("s", ROW, dtype=result), "sum", (ROW,), ITEM, element)
    cascade = Cascade("c", (ROW,), ITEM, (X.tensor,), (), (total,), (keep("y", total.value, (ROW,)),))
    cascade.verify()
    return cascade


X = load(Tensor("x", (ROW.extent, ITEM.extent), "float16"), ROW, ITEM)


def test_results_and_arithmetic_become_float32_and_memory_stays() -> None:
    wide = widen(cascade_of(op("exp", op("mul", X, number(2.0, "float16"))), "float16"))
    wide.verify()
    (total,) = wide.reductions
    assert str(total.map) == "exp((float32(x[i, l]) * 2))" and total.result.dtype == "float32"
    assert wide.outputs[0].tensor.dtype == "float16" and str(wide.outputs[0].value) == "float16(s[i])"


def test_a_cast_to_half_precision_still_rounds() -> None:
    element = cast(cast(op("exp", cast(X, "float32")), "float16"), "float32")
    assert widen(cascade_of(element, "float32")).reductions[0].map == element


def test_a_cast_to_float32_of_a_wide_value_vanishes() -> None:
    wide = widen(cascade_of(cast(op("exp", X), "float32"), "float32"))
    assert str(wide.reductions[0].map) == "exp(float32(x[i, l]))"


def test_float32_is_left_alone() -> None:
    x = load(tensor("x", ROW, ITEM), ROW, ITEM)
    total = Reduction(tensor("s", ROW), "sum", (ROW,), ITEM, op("exp", x))
    cascade = Cascade("c", (ROW,), ITEM, (x.tensor,), (), (total,), (keep("y", total.value, (ROW,)),))
    assert widen(cascade) == cascade
