"""Selections are made by the shared element where the value increases with it; else the row is read again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.algebra.certificates.replay import Replay, direct
from redfuser.cascade.model import Cascade
from redfuser.expr import Expr, Tensor, cast, load, number, op, pair, walk
from tests.selections import hard_rows, routing, selection

ONE = number(1.0, "float32")
TWO = number(2.0, "float32")


def selecting(change: Callable[[Expr, Expr, Expr], Expr]) -> Cascade:
    """Routing by another value of the score, its maximum and the sum of its exponentials."""
    cascade = routing(6, 13, 3)
    m, t, best = cascade.reductions
    x = m.map
    position = best.map.children[1]
    return replace(cascade, reductions=(m, t, replace(best, map=pair(change(x, m.value, t.value), position))))


INCREASING: dict[str, Callable[[Expr, Expr, Expr], Expr]] = {
    "softmax": lambda x, m, t: op("div", op("exp", op("sub", x, m)), t),
    "shifted": lambda x, m, t: op("add", m, x),
    "scaled": lambda x, m, t: op("mul", t, op("sigmoid", op("sub", x, m))),
    "of a compound element": lambda x, m, t: op("sub", op("mul", x, x), t),
    "widened": lambda x, m, t: cast(op("tanh", op("sub", x, m)), "float64"),
}

NOT_INCREASING: dict[str, Callable[[Expr, Expr, Expr], Expr]] = {
    "decreasing": lambda x, m, t: op("sub", m, x),
    "a factor of any sign": lambda x, m, t: op("mul", x, m),
    "under the division": lambda x, m, t: op("div", t, op("exp", x)),
    "two elements": lambda x, m, t: op("add", op("exp", op("sub", x, m)), op("mul", TWO, x)),
    "rounded": lambda x, m, t: op("round", op("sub", x, m)),
    "narrowed": lambda x, m, t: cast(op("sub", x, m), "float16"),
    "flattened": lambda x, m, t: op("max", x, op("sub", m, ONE)),
}


@pytest.mark.parametrize("name", INCREASING)
def test_the_state_holds_elements(name: str) -> None:
    derivation = derive(selecting(INCREASING[name]))
    assert derivation.form == "rank-1", derivation
    (part,) = derivation.recurrences[2].state
    assert not part.correction
    results = {"max0", "sum1"}
    assert not results & {node.tensor.name.partition(".")[0] for node in walk(part.element) if hasattr(node, "tensor")}
    assert any("increases with x" in proof.claim for proof in derivation.proofs)


@pytest.mark.parametrize("name", NOT_INCREASING)
def test_anything_else_is_resident(name: str) -> None:
    derivation = derive(selecting(NOT_INCREASING[name]))
    assert derivation.form == "resident"
    assert derivation.obstacle is not None and derivation.obstacle.code == "not-increasing"


def test_without_earlier_results_elements_are_selected_as_they_are() -> None:
    cascade = selection(4, 9, 3, "float32")
    (recurrence,) = derive(cascade).recurrences
    assert [part.element for part in recurrence.state] == [cascade.reductions[0].map]


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("k", [1, 3])
def test_where_a_row_is_nan_all_tie_and_the_lowest_positions_win(k: int, largest: bool) -> None:
    cascade = routing(9, 13, k, largest=largest)
    tensors = {Tensor("x", (9, 13), "float32"): hard_rows(9, 13)}
    poisoned = np.isnan(hard_rows(9, 13)).any(axis=1)
    tiles = ((range(0, 5), range(5, 7)), (range(7, 13),))
    found = Replay(cascade, derive(cascade), tensors).run(tiles)[cascade.reductions[2].result]
    expected = direct(cascade, tensors)[cascade.reductions[2].result]
    assert poisoned.any()
    np.testing.assert_array_equal(np.abs(found.imag[poisoned]), np.abs(expected.imag[poisoned]))
    np.testing.assert_array_equal(np.isnan(found.real), np.isnan(expected.real))


def test_lists_merge_in_any_order_of_segments() -> None:
    cascade = selection(9, 13, 4, "float32")
    tensors = {Tensor("x", (9, 13), "float32"): hard_rows(9, 13)}
    replay = Replay(cascade, derive(cascade), tensors)
    result = cascade.reductions[0].result
    expected = direct(cascade, tensors)[result]
    for cut in (1, 4, 6, 12):
        one, other = replay.fold([range(0, cut)]), replay.fold([range(cut, 13)])
        for merged in (replay.merge(one, other), replay.merge(other, one)):
            np.testing.assert_array_equal(replay.finish(merged)[result].imag, expected.imag)


def test_the_load_of_a_score_is_what_both_passes_read() -> None:
    cascade = routing(6, 13, 3)
    element = derive(cascade).recurrences[2].state[0].element
    assert load(cascade.inputs[0], cascade.rows[0], cascade.axis) in set(walk(element))
