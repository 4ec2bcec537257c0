"""Powers of two that go from products into what is staged, and what stays where it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from redfuser.codegen.cpu.lowering.factors import move_factors
from redfuser.expr import Expr, Tensor, axis, index, load, number, op
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Reduce, Statement, Store, Stream
from tests.codegen.cpu.programs import assert_matches
from tests.tile.build import Attention, program

ROW, ITEM, DEPTH = axis("i", 8), axis("l", 64), axis("k", 16)
Q = load(Tensor("q", (8, 16), "float32"), ROW, DEPTH)
K = load(Tensor("k", (64, 16), "float32"), ITEM, DEPTH)
STAGED = Buffer(Tensor("staged", (8, 16), "float32"), (ROW, DEPTH))
SCORE = Buffer(Tensor("score", (8, 32), "float32"), (ROW, ITEM))
TOP = Buffer(Tensor("top", (8,), "float32"), (ROW,))
STAGE = Map(STAGED, Q)
PRODUCT = Contract(SCORE, STAGED.value, K, DEPTH)
CLEAR = Fill(SCORE, 0)


def scaled(factor: float) -> Map:
    return Map(SCORE, op("mul", SCORE.value, number(factor, "float32")))


def moved(*body: Statement, before: Sequence[Statement] = (STAGE,)) -> tuple[Statement, ...]:
    """The statements of the stream afterwards, behind what is before it."""
    stream = Stream(ITEM, 32, (*body, Reduce(TOP, "max", SCORE.value, ITEM)), index(0), index(64))
    *first, last = move_factors(Phase((), (STAGED, SCORE, TOP), (*before, stream))).body
    assert isinstance(last, Stream)
    return (*first, *last.body[:-1])


def times(value: Expr, factor: float) -> Expr:
    return op("mul", value, number(factor, "float32"))


@pytest.mark.parametrize("factor", [0.5, 0.125, 2.0**-20])
def test_a_power_of_two_goes_into_the_staged_operand(factor: float) -> None:
    assert moved(CLEAR, PRODUCT, scaled(factor)) == (Map(STAGED, times(Q, factor)), CLEAR, PRODUCT)


def test_what_else_is_done_to_the_product_stays() -> None:
    mask = load(Tensor("mask", (64,), "float32"), ITEM)
    after = Map(SCORE, op("add", times(SCORE.value, 0.25), mask))
    assert moved(CLEAR, PRODUCT, after) == (
        Map(STAGED, times(Q, 0.25)),
        CLEAR,
        PRODUCT,
        Map(SCORE, op("add", SCORE.value, mask)),
    )


@pytest.mark.parametrize("factor", [0.1, 3.0, 2.0, -0.5])
def test_other_factors_stay(factor: float) -> None:
    """Of a large one the operand might be infinite where the product isn't."""
    body = (CLEAR, PRODUCT, scaled(factor))
    assert moved(*body) == (STAGE, *body)


def test_an_operand_of_another_type_takes_no_factor() -> None:
    half = Buffer(Tensor("half", (8, 16), "bfloat16"), (ROW, DEPTH))
    stage = Map(half, load(Tensor("h", (8, 16), "bfloat16"), ROW, DEPTH))
    body = (CLEAR, Contract(SCORE, half.value, K, DEPTH), scaled(0.5))
    assert moved(*body, before=(stage,)) == (stage, *body)


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ((STAGE, Store(Q.tensor, (ROW, DEPTH), (ROW, DEPTH), STAGED.value)), (CLEAR, PRODUCT, scaled(0.5))),
        ((STAGE, Map(STAGED, Q)), (CLEAR, PRODUCT, scaled(0.5))),
        ((), (CLEAR, Contract(SCORE, Q, K, DEPTH), scaled(0.5))),
        ((STAGE,), (Fill(SCORE, 1), PRODUCT, scaled(0.5))),
        ((STAGE,), (PRODUCT, scaled(0.5))),
        ((STAGE,), (CLEAR, PRODUCT, Map(TOP, scaled(0.5).value))),
        ((STAGE,), (CLEAR, PRODUCT, Map(SCORE, op("add", times(SCORE.value, 0.5), SCORE.value)))),
        ((STAGE,), (CLEAR, PRODUCT, Map(SCORE, op("mul", SCORE.value, SCORE.value)))),
    ],
)
def test_nothing_moves_where_the_operand_or_the_product_has_another_use(
    before: Sequence[Statement], body: Sequence[Statement]
) -> None:
    assert moved(*body, before=before) == (*before, *body)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_attention_is_the_same(mask: str) -> None:
    attention = Attention(q_len=37, kv_len=70, dim=16, v_dim=16, mask=mask)
    inputs = attention.inputs()
    inputs["q"] = inputs["q"] * np.float32(30)
    assert_matches(program(attention.cascade(), "single-segment", i=16, j=32), inputs)
