"""Skipping what a mask of positions hides: what is found, what is refused, and that no number changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.expr import Expr, axis, loads, number, op
from redfuser.tile import interpret
from redfuser.tile.strategies.skipping.hidden import find_hidden
from tests.tile.build import Attention, Inputs, Rows, program

CAUSAL = Attention(mask="causal", q_len=21, kv_len=21)
WINDOW = replace(CAUSAL, mask="window")


def limits(cascade: Cascade) -> list[str]:
    """The limits found, as text."""
    hidden = find_hidden(cascade, derive(cascade))
    return [f"j {'<=' if limit.upper else '>='} {limit.position.expr()}" for limit in hidden.limits]


def asked(cascade: Cascade) -> set[str]:
    """The tensors that must hold moderate numbers."""
    needs = find_hidden(cascade, derive(cascade)).needs
    values = [*needs.values, *(side for product in needs.products for side in (product.left, product.right))]
    return {node.tensor.name for value in values for node in loads(value)}


def test_a_causal_mask_hides_later_keys() -> None:
    assert limits(CAUSAL.cascade()) == ["j <= i"]
    assert asked(CAUSAL.cascade()) == {"q", "k", "v"}, "infinite scores or values would show through the mask"


def test_a_window_hides_both_sides() -> None:
    assert sorted(limits(WINDOW.cascade())) == ["j <= i", "j >= (i - 5)"]


def replaced(score: Expr) -> Expr:
    i, j = axis("i", 21), axis("j", 21)
    return op("select", op("gt", j, i), number(float("-inf"), "float32"), score)


def test_a_replaced_score_may_be_anything() -> None:
    cascade = Attention(mask="none", q_len=21, kv_len=21, score=replaced).cascade()
    assert limits(cascade) == ["j <= i"] and asked(cascade) == {"v"}


def test_numbers_added_from_memory_hide_nothing() -> None:
    assert not find_hidden(Attention(mask="add").cascade(), derive(Attention(mask="add").cascade()))


def hidden_later(score: Expr) -> Expr:
    i, j = axis("i", 21), axis("j", 21)
    return op("add", score, op("select", op("le", j, i), number(0, "float32"), number(float("-inf"), "float32")))


def test_a_bias_for_each_pair_is_too_dear_to_look_at() -> None:
    cascade = Attention(mask="add", q_len=21, kv_len=21, score=hidden_later).cascade()
    assert limits(cascade) == []


def test_counting_hides_nothing() -> None:
    """A sum whose hidden elements aren't zero."""
    rows = Rows()
    seen = op("le", rows.item, rows.row)
    element = op("select", seen, rows.x, number(1, "float32"))
    assert limits(rows.cascade("sum_0", (rows.reduction("s", "sum", element),))) == []
    zero = op("select", seen, rows.x, number(0, "float32"))
    assert limits(rows.cascade("sum_0", (rows.reduction("s", "sum", zero),))) == ["j <= i"]


def spoiled(attention: Attention, **values: float) -> Inputs:
    """Inputs with a number at the last key but two, in the last feature."""
    inputs = attention.inputs()
    for name, number_ in values.items():
        inputs[name][..., -3, -1] = number_
    return inputs


@pytest.mark.parametrize("strategy", ["single-segment", "multi-segment"])
@pytest.mark.parametrize("attention", [CAUSAL, WINDOW, replace(CAUSAL, kv_len=30), replace(CAUSAL, kv_len=9)])
def test_no_number_changes(attention: Attention, strategy: str) -> None:
    cascade = attention.cascade()
    usual = program(cascade, strategy, 3, i=4, j=4)
    skipping = program(cascade, strategy, 3, skip=True, i=4, j=4)
    assert len(skipping.phases) == len(usual.phases) + 1
    for inputs in (
        attention.inputs(),
        spoiled(attention, v=np.nan),
        spoiled(attention, v=np.inf, k=1e30),
        spoiled(attention, k=-np.inf),
        spoiled(attention, q=np.nan),
    ):
        np.testing.assert_array_equal(interpret(skipping, inputs)["out"], interpret(usual, inputs)["out"])


def test_hidden_keys_are_not_read() -> None:
    cascade = CAUSAL.cascade()
    skipping = program(cascade, "single-segment", skip=True, i=4, j=4)
    (stream,) = [s for s in skipping.phases[1].body if hasattr(s, "stop") and str(s.axis) == "j"]
    assert str(stream.stop).startswith("select(((size0[") and "i" in str(stream.stop)


def test_nothing_is_skipped_unless_asked_for() -> None:
    assert len(program(CAUSAL.cascade(), "single-segment", i=4, j=4).phases) == 1
    assert len(program(Attention().cascade(), "single-segment", skip=True, i=4, j=4).phases) == 1
