"""Skipping under masks of large finite numbers, and under tables of booleans: what is proven, and what stays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.expr import Expr, axis, load, number, op
from redfuser.tile import TileProgram, interpret
from redfuser.tile.strategies.skipping.hidden import Hidden, find_hidden
from tests.tile.build import Attention, Inputs, program, tensor

LOWEST = float(np.finfo(np.float32).min)
Bools = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Masked:
    """A score that is masked: by what, and where it is seen.

    Args:
        seen: ``positions`` up to the query's, a ``table`` of booleans, or ``both``.
        replaced: the number takes the score's place; else it is added.
    """

    mask: float = LOWEST
    seen: str = "table"
    replaced: bool = False
    offset: int = 0
    q_len: int = 21
    kv_len: int = 21

    def __call__(self, score: Expr) -> Expr:
        i, j = axis("i", self.q_len), axis("j", self.kv_len)
        causal = op("le", j, op("add", i, number(self.offset, "int64")) if self.offset else i)
        table = load(tensor("mask", i, j, dtype="bool"), i, j)
        seen = {"positions": causal, "table": table, "both": op("and", causal, table)}[self.seen]
        low = number(self.mask, "float32")
        if self.replaced:
            return op("select", seen, score, low)
        return op("add", score, op("select", seen, number(0, "float32"), low))

    def cascade(self) -> Cascade:
        plain = Attention(mask="none", q_len=self.q_len, kv_len=self.kv_len, score=self)
        return plain.cascade()

    def inputs(self, table: Bools | None = None) -> Inputs:
        inputs = Attention(mask="none", q_len=self.q_len, kv_len=self.kv_len).inputs()
        if self.seen != "positions":
            inputs["mask"] = causal(self.q_len, self.kv_len) if table is None else table
        return inputs


def causal(q_len: int = 21, kv_len: int = 21) -> Bools:
    return np.tril(np.ones((q_len, kv_len), dtype=bool))


@cache
def hidden(masked: Masked) -> Hidden:
    return find_hidden(masked.cascade(), derive(masked.cascade()))


def bound(masked: Masked) -> float:
    """The most that a sum of products may be."""
    (most,) = hidden(masked).needs.products.values()
    return most


@pytest.mark.parametrize("replaced", [False, True])
def test_a_finite_mask_hides_where_scores_are_bounded(replaced: bool) -> None:
    for seen in ("table", "both", "positions"):
        found = hidden(Masked(seen=seen, replaced=replaced))
        assert found and found.needs.visible and found.needs.products
        assert bool(found.limits) == (seen == "positions")


def test_the_smaller_the_mask_the_smaller_the_scores_must_be() -> None:
    bounds = [bound(Masked(mask)) for mask in (LOWEST, -1e9, -65504.0, -1e4, -1000.0)]
    assert bounds == sorted(bounds, reverse=True)
    assert all(
        2 * b * 0.5 < -mask - 104 for mask, b in zip((LOWEST, -1e9, -65504.0, -1e4, -1000.0), bounds, strict=True)
    )


def test_a_small_mask_hides_nothing() -> None:
    """exp(-100) isn't 0."""
    assert not hidden(Masked(-100.0))


def test_minus_infinity_from_a_table_needs_no_bound() -> None:
    found = hidden(Masked(float("-inf")))
    assert found.conditions and not found.needs.visible
    assert set(found.needs.products.values()) == {2.0**80}


def test_rows_that_positions_hide_entirely_rule_a_finite_mask_out_as_a_limit() -> None:
    """Such a row is the mean of all values: where it is known from positions alone, their table is measured."""
    found = hidden(Masked(seen="positions", offset=-3))
    assert not found.limits and found.conditions
    assert hidden(Masked(seen="positions", offset=3)).limits


def tables() -> dict[str, Bools]:
    keys = np.arange(21)
    return {
        "causal": causal(),
        "left padding": causal() & (keys >= 9),
        "right padding": causal() & (keys < 6),
        "padding alone": np.broadcast_to(keys < 8, (21, 21)).copy(),
        "a window": causal() & ~np.tril(np.ones((21, 21), dtype=bool), -6),
        "nothing seen": np.zeros((21, 21), dtype=bool),
        "everything seen": np.ones((21, 21), dtype=bool),
        "one row sees nothing": causal() & (np.arange(21)[:, None] != 7),
        "scattered": np.random.default_rng(5).random((21, 21)) < 0.1,
    }


def spoilt(inputs: Inputs, **values: float) -> Inputs:
    changed = {name: array.copy() for name, array in inputs.items()}
    for name, value in values.items():
        changed[name][..., -3, -1] = value
    return changed


@cache
def programs(masked: Masked, strategy: str = "single-segment") -> tuple[TileProgram, TileProgram]:
    """Without skipping, and with it."""
    cascade = masked.cascade()
    return program(cascade, strategy, 3, i=6, j=6), program(cascade, strategy, 3, skip=True, i=6, j=6)


@pytest.mark.parametrize("mask", [LOWEST, float("-inf")])
@pytest.mark.parametrize("name", tables())
def test_no_number_changes(name: str, mask: float) -> None:
    masked = Masked(mask)
    usual, skipping = programs(masked)
    inputs = masked.inputs(tables()[name])
    for case in (inputs, spoilt(inputs, v=np.nan)):
        np.testing.assert_array_equal(interpret(skipping, case)["out"], interpret(usual, case)["out"])


@pytest.mark.parametrize("strategy", ["single-segment", "multi-segment"])
@pytest.mark.parametrize("mask", [LOWEST, -1e4, -300.0])
def test_no_number_changes_with_hard_inputs(mask: float, strategy: str) -> None:
    masked = Masked(mask)
    usual, skipping = programs(masked, strategy)
    inputs = masked.inputs(tables()["left padding"])
    for case in (
        {**inputs, "q": inputs["q"] * 100},
        {**inputs, "k": inputs["k"] * 1e30},
        {**inputs, "q": inputs["q"] * -1e30},
        spoilt(inputs, v=np.inf),
        spoilt(inputs, k=np.nan),
        spoilt(inputs, q=np.nan, k=np.inf),
    ):
        np.testing.assert_array_equal(interpret(skipping, case)["out"], interpret(usual, case)["out"])


@pytest.mark.parametrize(("seen", "offset"), [("positions", 0), ("positions", -3), ("both", 0), ("positions", 4)])
def test_no_number_changes_with_positions(seen: str, offset: int) -> None:
    masked = Masked(seen=seen, offset=offset, replaced=offset == 0)
    usual, skipping = programs(masked)
    for case in (masked.inputs(), spoilt(masked.inputs(), v=np.nan), spoilt(masked.inputs(), k=1e30)):
        np.testing.assert_array_equal(interpret(skipping, case)["out"], interpret(usual, case)["out"])


def test_hidden_tiles_are_not_visited() -> None:
    """A value behind the mask that stays within its bound, and whose sign would show, changes nothing."""
    masked = Masked(-300.0)
    usual, skipping = programs(masked)
    inputs = masked.inputs()
    inputs["q"], inputs["k"] = inputs["q"] / 4, inputs["k"] / 4
    tampered = {**inputs, "mask": inputs["mask"].copy()}
    np.testing.assert_array_equal(interpret(skipping, tampered)["out"], interpret(usual, inputs)["out"])
    starts = [str(s.stop) for s in skipping.phases[-1].body if hasattr(s, "stop") and str(s.axis) == "j"]
    assert "seen.last" in starts[0] and "select" in starts[0]
