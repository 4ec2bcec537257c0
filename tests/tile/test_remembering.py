"""Phases that are remembered: of integers alone, on the very arrays they read before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from redfuser.expr import Expr, Tensor, axis, cast, load, number, op
from redfuser.tile import TileProgram
from redfuser.tile.interpreter import interpret_blocks
from redfuser.tile.ir import Buffer, Fill, Phase, Reduce, Store, Tile
from redfuser.tile.remembering import Memory, exact_inputs
from tests.tile.build import tensor

ROW, J = axis("i", 5), axis("j", 7)
COUNTS, X, Y = Tensor("counts", (5, 7), "int32"), tensor("x", ROW), tensor("y", ROW)
MOST = Tensor("most", (5,), "int32")


def made(value: Expr, dtype: str = "int32") -> TileProgram:
    """The largest element of each row in a workspace, then added to ``x``."""
    kept = replace(MOST, dtype=dtype)
    total = Buffer(Tensor("s", (2,), dtype), (ROW,))
    store = Store(kept, (ROW,), (ROW,), total.value)
    first = Phase((Tile(ROW, 2),), (total,), (Fill(total, -1), Reduce(total, "max", value, J), store))
    row = axis("r", 5)
    last = Phase(
        (Tile(row, 2),), (), (Store(Y, (row,), (row,), op("add", cast(load(kept, row), "float32"), load(X, row))),)
    )
    return TileProgram("p", (COUNTS, X), (Y,), (kept,), (first, last))


def test_only_integers_of_inputs_are_the_same_in_every_precision() -> None:
    program = made(load(COUNTS, ROW, J))
    assert exact_inputs(program, program.phases[0]) == (COUNTS,)
    assert exact_inputs(program, program.phases[1]) is None, "it reads a workspace"
    rounds = made(op("mul", cast(load(COUNTS, ROW, J), "float32"), number(0.1, "float32")), "float32")
    assert exact_inputs(rounds, rounds.phases[0]) is None
    twice = replace(program, phases=(program.phases[0], *program.phases))
    assert exact_inputs(twice, replace(program.phases[0])) is None, "another phase writes there too"


def test_what_is_remembered_is_what_would_come() -> None:
    program, known, random = made(load(COUNTS, ROW, J)), Memory(), np.random.default_rng(0)
    counts, other = (random.integers(0, 100, (5, 7), dtype=np.int32) for _ in range(2))
    for given in (counts, counts, other, counts):
        for dtype in (None, "float64"):
            inputs = {"counts": given, "x": random.standard_normal(5, dtype=np.float32)}
            outputs, written = interpret_blocks(program, inputs, None, dtype, known)
            expected, everywhere = interpret_blocks(program, inputs, None, dtype)
            assert np.array_equal(outputs["y"], expected["y"]) and written["y"].all() and everywhere["y"].all()


def test_a_phase_runs_again_on_other_arrays_and_for_other_blocks() -> None:
    program, known = made(load(COUNTS, ROW, J)), Memory()
    (first, _), counts = program.phases, np.zeros((5, 7), np.int32)
    interpret_blocks(program, {"counts": counts, "x": np.zeros(5, np.float32)}, None, None, known)
    blocks = (0, 1, 2)
    assert known.recall(first, blocks, (counts,)) is not None
    assert known.recall(first, blocks, (counts.copy(),)) is None
    assert known.recall(first, (0,), (counts,)) is None
    left = known.recall(first, blocks, (counts,))
    assert left is not None
    left[MOST][0][:] = 9
    again = known.recall(first, blocks, (counts,))
    assert again is not None and (again[MOST][0] == 0).all(), "what is handed out is a copy"
