"""Which buffers hold no subnormal numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from redfuser.codegen.cpu.lowering.normal import never_subnormal
from redfuser.expr import Tensor, axis, index, load, op
from redfuser.tile.ir import Buffer, Fill, Map, Phase, Reduce, Statement, Stream

ROW, ITEM = axis("i", 4), axis("l", 96)
VALUE = load(Tensor("x", (4, 96), "float32"), ROW, ITEM)
POWER = Buffer(Tensor("power", (4, 96), "float32"), (ROW, ITEM))
TOTAL = Buffer(Tensor("total", (4,), "float32"), (ROW,))
START = Fill(TOTAL, 0)
RAISE = Map(POWER, op("exp", VALUE))


def shown(*body: Statement) -> set[str]:
    return {tensor.name for tensor in never_subnormal(Phase((), (POWER, TOTAL), body))}


@pytest.mark.parametrize("value", [POWER.value, op("exp", VALUE)])
def test_exponentials_and_their_sums(value: object) -> None:
    assert shown(START, Stream(ITEM, 32, (RAISE, Reduce(TOTAL, "sum", value, ITEM)), index(0), index(96))) == {
        "power",
        "total",
    }


@pytest.mark.parametrize(
    "body",
    [
        (START, Reduce(TOTAL, "sum", VALUE, ITEM)),
        (Fill(TOTAL, 1e-40), Reduce(TOTAL, "sum", POWER.value, ITEM)),
        (START, Reduce(TOTAL, "prod", POWER.value, ITEM)),
        (START, Reduce(TOTAL, "sum", POWER.value, ITEM), Map(TOTAL, op("mul", TOTAL.value, TOTAL.value))),
    ],
)
def test_whatever_else_is_written(body: Sequence[Statement]) -> None:
    assert shown(RAISE, *body) == {"power"}


def test_a_sum_of_what_is_overwritten() -> None:
    again = Map(POWER, VALUE)
    assert not shown(START, RAISE, again, Reduce(TOTAL, "sum", POWER.value, ITEM))
