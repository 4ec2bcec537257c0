"""Selections as tile programs: every strategy against a stable sort, and the rules for lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.expr import axis
from redfuser.targets import CpuTarget, load_target
from redfuser.tile import Schedule, build, default_schedule, interpret, verify
from redfuser.tile.ir import Reduce, Statement, Stream, TileProgram
from redfuser.tile.verifier import TileError
from tests.cascade.reference import evaluate_cascade
from tests.selections import hard_rows, ordered, routing, selection

SCHEDULES = {
    "resident": Schedule("resident", (("l", 16), ("i", 4))),
    "single-segment": Schedule("single-segment", (("l", 7), ("i", 3))),
    "multi-segment": Schedule("multi-segment", (("l", 5), ("i", 2)), 3),
}


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 2, 23])
def test_routing_equals_the_cascade(k: int, largest: bool, schedule: Schedule) -> None:
    cascade = routing(9, 23, k, largest=largest)
    program = build(cascade, derive(cascade), schedule)
    verify(program)
    inputs = {"x": hard_rows(9, 23)}
    for dtype in (None, "float64"):
        found, expected = interpret(program, inputs, dtype), evaluate_cascade(cascade, inputs, dtype)
        # An infinity makes every probability 0 or NaN: which of them is first is up to the order of the scores.
        usual = np.isfinite(inputs["x"]).all(axis=1) | np.isnan(expected["y"]).reshape(9, -1).all(axis=1)
        np.testing.assert_array_equal(found["where"][usual], expected["where"][usual])
        np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-6 if dtype is None else 1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES.values(), ids=SCHEDULES)
@pytest.mark.parametrize("largest", [True, False])
def test_a_selection_is_a_stable_sort(largest: bool, schedule: Schedule) -> None:
    cascade = selection(9, 23, 6, "float32", largest)
    x = hard_rows(9, 23)
    program = build(cascade, derive(cascade), schedule)
    verify(program)
    found = interpret(program, {"x": x})
    np.testing.assert_array_equal(found["where"], ordered(x, 6, largest))
    np.testing.assert_array_equal(found["y"], np.take_along_axis(x, ordered(x, 6, largest), axis=1))


def test_the_default_lays_lists_side_by_side() -> None:
    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    many, few = routing(512, 64, 8), routing(2, 64, 8)
    assert default_schedule(many, derive(many), target).schedule.lanes == "i"
    assert default_schedule(few, derive(few), target).schedule.lanes == "l"


def _broken(program: TileProgram, **changes: object) -> TileProgram:
    """The program with its list reductions changed."""

    def change(statement: Statement) -> Statement:
        if isinstance(statement, Stream):
            return replace(statement, body=tuple(map(change, statement.body)))
        return replace(statement, **changes) if isinstance(statement, Reduce) and statement.rank else statement

    phases = tuple(replace(phase, body=tuple(map(change, phase.body))) for phase in program.phases)
    return replace(program, phases=phases)


@pytest.mark.parametrize(
    "changes, rule",
    [
        ({"combiner": "max"}, "a list, and nothing else, has places"),
        ({"rank": None}, "a list, and nothing else, has places"),
        ({"rank": axis("i", 4)}, "the last axis and whole on chip"),
    ],
)
def test_the_verifier_knows_lists(changes: dict[str, object], rule: str) -> None:
    cascade = selection(4, 9, 3, "float32")
    program = build(cascade, derive(cascade), Schedule("resident"))
    with pytest.raises(TileError, match=rule):
        verify(_broken(program, **changes))
