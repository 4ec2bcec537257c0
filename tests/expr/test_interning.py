"""Equal values are one object."""

from __future__ import annotations

import gc
import pickle
from dataclasses import replace

from redfuser.expr import Axis, Const, Expr, Tensor, axis, cast, index, load, number, op, transform


def nested(depth: int) -> Expr:
    """Each level reads the one below twice: a tree of 2^depth leaves."""
    value: Expr = load(Tensor("x", (4,), "float32"), axis("i", 4))
    for _ in range(depth):
        value = op("max", value, op("mul", value, number(0.5, "float32")))
    return value


def test_equal_expressions_are_one_object() -> None:
    assert nested(60) is nested(60)
    assert transform(nested(60), lambda node: node) is nested(60)
    assert replace(axis("i", 4), extent=5) is axis("i", 5)


def test_what_differs_in_anything_is_another() -> None:
    assert Const("int64", 1) is not Const("int32", 1) and Const("int64", 1) != Const("int32", 1)
    assert number(0.0, "float32") is not number(-0.0, "float32")
    assert Const("bool", True) is not Const("bool", 1)
    assert Axis("int64", "i", 4) is not Axis("int64", "j", 4)
    assert cast(number(1, "float32"), "int8") is not cast(number(1, "float32"), "uint8")


def test_they_are_found_again_after_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(nested(5))) is nested(5)


def test_they_go_when_nothing_holds_them() -> None:
    from redfuser.expr.interning import _ALIVE

    made = [index(10**12 + n) for n in range(100)]
    before = len(_ALIVE)
    del made
    gc.collect()
    assert len(_ALIVE) <= before - 100
