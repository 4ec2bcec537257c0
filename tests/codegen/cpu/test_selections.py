"""Selections as machine code: ties, NaN, infinities, every type, every shape of tile, merges of segments."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.codegen.refusal import Refused
from redfuser.expr.evaluate import numpy_dtype
from redfuser.tile import Schedule, build, interpret, verify
from tests.codegen.cpu.programs import assert_matches, run
from tests.selections import hard_rows, ordered, routing, selection

SCHEDULES = {
    "row by row": Schedule("resident", (("l", 16),), lanes="l"),
    "rows side by side": Schedule("resident", (("l", 40), ("i", 16)), lanes="i"),
    "streamed": Schedule("single-segment", (("l", 7), ("i", 16)), lanes="i"),
    "in segments": Schedule("multi-segment", (("l", 8), ("i", 4)), 3),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("rows, k", [(19, 4), (19, 1), (3, 37), (16, 20)])
def test_routing(rows: int, k: int, schedule: Schedule) -> None:
    cascade = routing(rows, 37, k)
    program = build(cascade, derive(cascade), schedule)
    verify(program)
    assert_matches(program, {"x": hard_rows(rows, 37)})


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool"])
def test_values_of_every_type_in_the_order_of_a_stable_sort(dtype: str, largest: bool) -> None:
    x = hard_rows(19, 23)
    if "float" not in dtype:
        x = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 9, x.shape)
        x = x - 4 if dtype.startswith("int") else x
    x = x.astype(numpy_dtype(dtype))
    if dtype == "int32":
        x[0, 3], x[0, 5], x[1] = np.iinfo(np.int32).min, np.iinfo(np.int32).max, np.iinfo(np.int32).min
    cascade = selection(19, 23, 6, dtype, largest)
    found = run(build(cascade, derive(cascade), SCHEDULES["rows side by side"]), {"x": x})
    where = ordered(x, 6, largest)
    np.testing.assert_array_equal(found["where"], where)
    got, expected = found["y"].view(x.dtype), np.take_along_axis(x, where, axis=1)
    np.testing.assert_array_equal(got.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_types_that_no_pair_holds_are_refused(dtype: str) -> None:
    cascade = selection(4, 9, 3, dtype)
    program = build(cascade, derive(cascade), SCHEDULES["row by row"])
    with pytest.raises(Refused, match=f"selections among {dtype}"):
        run(program, {"x": np.zeros((4, 9), dtype)})


def test_long_rows_and_long_lists() -> None:
    x = np.random.default_rng(2).integers(0, 500, (3, 4001)).astype(np.float32)
    cascade = selection(3, 4001, 100, "float32")
    for schedule in (Schedule("multi-segment", (("l", 512),), 4), Schedule("resident", (("l", 1024),))):
        found = run(build(cascade, derive(cascade), schedule), {"x": x})
        np.testing.assert_array_equal(found["where"], ordered(x, 100))


def test_the_interpreter_agrees_on_what_infinities_do() -> None:
    cascade = routing(18, 37, 5, largest=False)
    x = hard_rows(18, 37, seed=3)
    for schedule in SCHEDULES.values():
        program = build(cascade, derive(cascade), schedule)
        np.testing.assert_array_equal(run(program, {"x": x})["where"], interpret(program, {"x": x})["where"])
