"""Which buffers hold no subnormal numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from redfuser.codegen.cpu import generate
from redfuser.codegen.cpu.lowering.normal import never_subnormal
from redfuser.expr import Tensor, axis, index, load, op
from redfuser.tile.ir import Buffer, Fill, Map, Phase, Reduce, Schedule, Statement, Store, Stream, Tile, TileProgram
from tests.codegen.cpu.programs import assert_matches, target

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


def divided(normal: bool) -> TileProgram:
    """``y = x / s`` for one number ``s``."""
    x, s = Tensor("x", (64,), "float32"), Tensor("s", (), "float32")
    i = axis("i", 64)
    y = Tensor("y", (64,), "float32")
    phase = Phase((Tile(i, 64),), (), (Store(y, (i,), (i,), op("div", load(x, i), load(s))),))
    schedule = Schedule("resident", lanes="i")
    return TileProgram("divided", (x, s), (y,), (), (phase,), schedule, normal=(s,) if normal else ())


@pytest.mark.parametrize("normal", [True, False])
def test_inputs_that_are_told_to_be_normal(normal: bool) -> None:
    """Where a divisor may be subnormal, quotients by it are scaled."""
    program = divided(normal)
    assert ("factor" in str(generate(program, target()))) is not normal
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    for s in (0.3, -7.0, 2.0**-126):
        assert_matches(program, {"x": x, "s": np.float32(s)})


def test_an_input_that_is_subnormal() -> None:
    """Its reciprocal is infinite."""
    x = np.linspace(-1e-38, 1e-38, 64, dtype=np.float32)
    assert_matches(divided(False), {"x": x, "s": np.float32(2.0**-130)})
