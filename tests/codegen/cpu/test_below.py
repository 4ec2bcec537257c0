"""Which arguments of exponentials are never positive, and what their exponentials are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from redfuser.codegen.cpu.lowering.below import never_positive
from redfuser.expr import Expr, Tensor, axis, index, load, number, op
from redfuser.tile import TileProgram
from redfuser.tile.ir import Buffer, Fill, Map, Phase, Reduce, Schedule, Statement, Store, Stream
from tests.codegen.cpu.programs import assert_matches, run, ulps

ROWS, WIDTH = 4, 96
ROW, J = axis("i", ROWS), axis("l", WIDTH)
X = Tensor("x", (ROWS, WIDTH), "float32")
Y = Tensor("y", (ROWS, WIDTH), "float32")
TOP = Buffer(Tensor("top", (ROWS,), "float32"), (ROW,))
BASE = Buffer(Tensor("base", (ROWS,), "float32"), (ROW,))
VALUE = load(X, ROW, J)
SEE = Reduce(TOP, "max", VALUE, J)
START = Fill(TOP, -math.inf)
NO_INFINITY = op("select", op("eq", TOP.value, number(-math.inf, "float32")), number(0.0, "float32"), TOP.value)


def stream(*body: Statement, start: int = 0, stop: int = WIDTH) -> Stream:
    return Stream(J, 32, body, index(start), index(stop))


def power(top: Expr) -> Store:
    return Store(Y, (ROW, J), (ROW, J), op("exp", op("sub", VALUE, top)))


def shown(body: Sequence[Statement]) -> bool:
    return bool(never_positive(Phase((), (TOP, BASE), tuple(body))))


@pytest.mark.parametrize(
    "body",
    [
        (START, stream(SEE), stream(power(TOP.value))),
        (START, stream(SEE), Map(BASE, NO_INFINITY), stream(power(BASE.value))),
        (START, stream(SEE, Map(BASE, NO_INFINITY), power(BASE.value))),
        (START, stream(SEE, power(TOP.value)), stream(power(TOP.value))),
    ],
)
def test_a_value_less_a_maximum_that_saw_it(body: Sequence[Statement]) -> None:
    assert shown(body)


@pytest.mark.parametrize(
    "body",
    [
        (START, stream(power(TOP.value))),
        (START, stream(power(TOP.value), SEE)),
        (START, stream(SEE, stop=64), stream(power(TOP.value))),
        (START, stream(SEE), Fill(TOP, 0.0), stream(power(TOP.value))),
        (START, stream(SEE), stream(power(TOP.value), Map(TOP, number(0.0, "float32")))),
        (START, stream(Reduce(TOP, "min", VALUE, J)), stream(power(TOP.value))),
        (START, stream(Reduce(TOP, "max", op("abs", VALUE), J)), stream(power(TOP.value))),
        (START, stream(SEE), stream(Store(X, (ROW, J), (ROW, J), op("add", VALUE, VALUE)), power(TOP.value))),
        (START, stream(SEE), stream(power(TOP.value)), Fill(TOP, 0.0), stream(power(TOP.value))),
        (START, stream(SEE), Map(BASE, op("add", TOP.value, TOP.value)), stream(power(BASE.value))),
    ],
)
def test_anything_else_may_be_positive(body: Sequence[Statement]) -> None:
    assert not shown(body)


DEVICES = ["cpu", "cpu-avx2", "cpu-x86-64"]


def powers(width: int) -> TileProgram:
    """Exponentials of the elements of rows less their maximum."""
    item, x = axis("l", width), Tensor("x", (ROWS, width), "float32")
    whole, value = (index(0), index(width)), load(x, ROW, item)
    see = Stream(item, width, (Reduce(TOP, "max", value, item),), *whole)
    store = Store(
        Tensor("y", (ROWS, width), "float32"), (ROW, item), (ROW, item), op("exp", op("sub", value, TOP.value))
    )
    body = (START, see, Stream(item, width, (store,), *whole))
    return TileProgram("rows", (x,), (store.tensor,), (), (Phase((), (TOP,), body),), Schedule("resident", lanes="l"))


@pytest.mark.parametrize(("device", "bound"), [("cpu", 1), ("cpu-avx2", 1), ("cpu-x86-64", 1.5)])
def test_their_exponentials_are_accurate(device: str, bound: float) -> None:
    """In units of the last place; without multiply-adds there is a rounding more."""
    x = -np.random.default_rng(0).uniform(0, 87.3, (ROWS, 4000)).astype(np.float32)
    x[:, 0] = 0
    x[2:] /= 87.3
    assert ulps(run(powers(4000), {"x": x}, device)["y"], np.exp(x.astype(np.float64))) <= bound


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [3, 21, 37])
def test_equal_numbers_have_equal_exponentials_wherever_they_lie(width: int, device: str) -> None:
    """In vectors and beside them, or selections would find no tie where there is one."""
    x = np.tile(-np.random.default_rng(0).uniform(0, 9, (ROWS, 1)).astype(np.float32), width)
    x[:, width // 2] = 0
    y = np.delete(run(powers(width), {"x": x}, device)["y"], width // 2, axis=1)
    assert (y == y[:, :1]).all()


@pytest.mark.parametrize("device", DEVICES)
def test_their_exponentials(device: str) -> None:
    x = np.random.default_rng(0).uniform(-90, 90, (ROWS, WIDTH)).astype(np.float32)
    x[1, 3], x[2, 5] = -math.inf, np.uint32(0x7FC12345).view(np.float32)  # a NaN with something in its last bits
    x[3] = -math.inf
    body = (START, stream(SEE), stream(power(TOP.value)))
    program = TileProgram("rows", (X,), (Y,), (), (Phase((), (TOP,), body),), Schedule("resident", lanes="l"))
    with np.errstate(invalid="ignore"):
        got = assert_matches(program, {"x": x}, device)["y"]
    assert got[1, 3] == 0 and np.isnan(got[2:]).all()
