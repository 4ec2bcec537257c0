"""The interpreter itself: tails, subsets of blocks, dtypes."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.expr import Tensor, axis, index, load
from redfuser.tile import TileProgram, interpret
from redfuser.tile.interpreter import interpret_blocks, needed_blocks
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Reduce, Store, Stream, Tile
from tests.tile.build import Attention, Rows, program, random_inputs, tensor

R, J, D = axis("i", 5), axis("j", 7), axis("d", 3)


@pytest.mark.parametrize("tile", [1, 2, 3, 7])
def test_tails_are_clipped(tile: int) -> None:
    x, y = tensor("x", R, J), tensor("y", R)
    total = Buffer(Tensor("s", (2,), "float32"), (R,))
    body = Stream(J, tile, (Reduce(total, "max", load(x, R, J), J),), index(0), index(7))
    phase = Phase((Tile(R, 2),), (total,), (Fill(total, -np.inf), body, Store(y, (R,), (R,), total.value)))
    data = -np.arange(35, dtype=np.float32).reshape(5, 7) - 1
    assert (interpret(TileProgram("p", (x,), (y,), (), (phase,)), {"x": data})["y"] == data.max(axis=1)).all()


def test_contract_is_a_matrix_product_with_batch_axes() -> None:
    b = axis("b", 2)
    q, k, y = tensor("q", b, R, D), tensor("k", b, J, D), tensor("y", b, R, J)
    scores = Buffer(Tensor("s", (2, 4, 7), "float32"), (b, R, J))
    product = Contract(scores, load(q, b, R, D), load(k, b, J, D), D)
    store = Store(y, (b, R, J), (b, R, J), scores.value)
    phase = Phase((Tile(b, 2), Tile(R, 4)), (scores,), (Fill(scores, 1), product, store))
    made = TileProgram("p", (q, k), (y,), (), (phase,))
    random = np.random.default_rng(0)
    left, right = random.standard_normal((2, 5, 3)), random.standard_normal((2, 7, 3))
    result = interpret(made, {"q": left, "k": right}, "float64")["y"]
    np.testing.assert_allclose(result, 1 + left @ right.transpose(0, 2, 1), rtol=1e-13)


def test_a_buffer_over_the_whole_axis_outlives_its_stream() -> None:
    x, y = tensor("x", J), tensor("y", J)
    kept = Buffer(Tensor("w", (7,), "float32"), (J,))
    bounds = (index(0), index(7))
    phase = Phase(
        (),
        (kept,),
        (Stream(J, 3, (Map(kept, load(x, J)),), *bounds), Stream(J, 2, (Store(y, (J,), (J,), kept.value),), *bounds)),
    )
    data = np.arange(7, dtype=np.float32)
    assert (interpret(TileProgram("p", (x,), (y,), (), (phase,)), {"x": data})["y"] == data).all()


def test_some_blocks_of_one_phase() -> None:
    case = Attention()
    made = program(case.cascade(), "single-segment", i=4, j=5)
    whole = interpret(made, case.inputs())["out"]
    outputs, written = interpret_blocks(made, case.inputs(), [3])  # the second head's last rows
    assert written["out"][0, 4:, 4:].all() and written["out"].sum() == 12
    assert (outputs["out"][0, 4:, 4:] == whole[0, 4:, 4:]).all()
    assert np.isnan(outputs["out"][~written["out"]]).all()


def test_blocks_of_earlier_phases_follow_the_last() -> None:
    cascade = Rows().variance()
    made = program(cascade, "multi-segment", segments=3, i=2, l=5)
    inputs = random_inputs(cascade)
    outputs, written = interpret_blocks(made, inputs, [0, 2])
    assert written["y0"].tolist() == [True, True, False, False, True]
    assert needed_blocks(made, [0, 2])[-1] == (0, 2) and needed_blocks(made, None)[-1] == (0, 1, 2)
    first = needed_blocks(made, [0, 2])[0]
    assert 2 * len(needed_blocks(made, None)[0]) == 3 * len(first), "every segment of two blocks of rows of three"
    assert (outputs["y0"][written["y0"]] == interpret(made, inputs)["y0"][written["y0"]]).all()


def test_stated_dtypes_or_float64() -> None:
    cascade = Rows().variance()
    made = program(cascade, "resident")
    inputs = random_inputs(cascade)
    assert interpret(made, inputs)["y0"].dtype == np.float32
    assert interpret(made, inputs, "float64")["y0"].dtype == np.float64


def test_refuses_wrong_inputs() -> None:
    made = program(Rows().variance(), "resident")
    with pytest.raises(ValueError, match="x: float32"):
        interpret(made, {"x": np.zeros((5, 22), np.float32)})
    with pytest.raises(KeyError):
        interpret(made, {})


def test_buffers_without_axes() -> None:
    x, y = tensor("x", J), tensor("y", J)
    total = Buffer(Tensor("s", (), "float32"), ())
    body = (
        Fill(total, 0),
        Stream(J, 2, (Reduce(total, "sum", load(x, J), J),), index(0), index(7)),
        Stream(J, 7, (Store(y, (J,), (J,), total.value),), index(0), index(7)),
    )
    result = interpret(TileProgram("p", (x,), (y,), (), (Phase((), (total,), body),)), {"x": np.ones(7)})
    assert (result["y"] == 7).all()
