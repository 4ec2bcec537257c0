"""Vectors of adjacent elements, whatever dimensions of one element follow."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.codegen.cpu import generate
from redfuser.codegen.cpu.values.access import rank
from redfuser.expr import Tensor, axis, index, load, number, op
from redfuser.tile import Schedule, TileProgram, verify
from redfuser.tile.ir import Phase, Store, Tile
from tests.codegen.cpu.programs import run, target


def doubled(*after: int) -> TileProgram:
    """``y[i] = 2 · x[i, 0, …]``; the result has dimensions of one element behind it, too, where ``x`` has."""
    i = axis("i", 70)
    places = (i, *(index(0) for _ in after))
    single = tuple(extent for extent in after if extent == 1)
    x, y = Tensor("x", (70, *after), "float32"), Tensor("y", (70, *single), "float32")
    value = op("mul", load(x, *places), number(2.0, "float32"))
    phase = Phase((Tile(i, 64),), (), (Store(y, (i,), places[: len(y.shape)], value),))
    program = TileProgram("doubled", (x,), (y,), (), (phase,), Schedule("resident", lanes="i"))
    verify(program)
    return program


@pytest.mark.parametrize(("after", "gathers"), [((), False), ((1,), False), ((1, 1), False), ((2,), True)])
def test_elements_before_dimensions_of_one_are_adjacent(after: tuple[int, ...], gathers: bool) -> None:
    program = doubled(*after)
    assert ("Shuffle" in str(generate(program, target()))) == gathers
    x = np.random.default_rng(0).standard_normal((70, *after)).astype(np.float32)
    got = run(program, {"x": x})["y"]
    np.testing.assert_array_equal(got.ravel(), 2 * x.reshape(70, -1)[:, 0])


@pytest.mark.parametrize(
    ("shape", "left"), [((), 0), ((1,), 1), ((1, 1), 1), ((3, 1), 1), ((1, 3), 2), ((2, 1, 4, 1), 3)]
)
def test_dimensions_that_are_left(shape: tuple[int, ...], left: int) -> None:
    assert rank(Tensor("x", shape, "float32")) == left
