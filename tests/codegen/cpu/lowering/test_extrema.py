"""Running maxima that pass over NaNs, and those that hand them on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from redfuser.codegen.cpu import generate
from redfuser.expr import Tensor, axis, index, load, op
from redfuser.tile.ir import Buffer, Fill, Phase, Reduce, Schedule, Store, Stream, Tile, TileProgram
from tests.codegen.cpu.programs import assert_matches, target

ROW, ITEM = axis("i", 32), axis("l", 75)
X = Tensor("x", (32, 75), "float32")
Y, LARGEST = Tensor("y", (32,), "float32"), Tensor("largest", (32,), "float32")
TOP, TOTAL = (Buffer(Tensor(name, (16,), "float32"), (ROW,)) for name in ("top", "total"))
DEVICES = ["cpu", "cpu-avx2", "cpu-x86-64"]


def logarithms(lanes: str, *also: Store) -> TileProgram:
    """The logarithm of each row's sum of exponentials, and other stores."""
    value, whole = load(X, ROW, ITEM), (index(0), index(75))
    body = (
        Fill(TOP, -math.inf),
        Stream(ITEM, 75, (Reduce(TOP, "max", value, ITEM),), *whole),
        Fill(TOTAL, 0),
        Stream(ITEM, 75, (Reduce(TOTAL, "sum", op("exp", op("sub", value, TOP.value)), ITEM),), *whole),
        Store(Y, (ROW,), (ROW,), op("add", op("log", TOTAL.value), TOP.value)),
        *also,
    )
    outputs = (Y, *(store.tensor for store in also))
    phase = Phase((Tile(ROW, 16),), (TOP, TOTAL), body)
    return TileProgram("rows", (X,), outputs, (), (phase,), Schedule("resident", lanes=lanes))


def spoiled() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Rows with a NaN first, inside, last, everywhere, beside an infinity; and rows of infinities."""
    x = np.random.default_rng(0).standard_normal((32, 75)).astype(np.float32)
    x[1, 0], x[2, 40], x[3, 74], x[4] = [math.nan] * 4
    x[5, 20:22] = math.inf, math.nan
    x[6, 20:22] = math.nan, math.inf
    x[7, 30], x[8], x[9, 3] = math.inf, -math.inf, -math.inf
    return x


def checks(program: TileProgram, device: str) -> int:
    """How often the kernel asks whether something is a NaN."""
    return str(generate(program, target(device)).script()).count("isnan")


@pytest.mark.parametrize("device", DEVICES)
def test_a_maximum_that_a_sum_shows_asks_nothing(device: str) -> None:
    hidden, shown = logarithms("l"), logarithms("l", Store(LARGEST, (ROW,), (ROW,), TOP.value))
    assert checks(hidden, device) + 5 < checks(shown, device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lanes", ["i", "l"])
def test_what_a_sum_shows_is_a_nan_in_every_row_that_holds_one(lanes: str, device: str) -> None:
    made = logarithms(lanes)
    with np.errstate(invalid="ignore"):
        got = assert_matches(made, {"x": spoiled()}, device)["y"]
    assert np.isnan(got[[1, 2, 3, 4, 5, 6]]).all() and not np.isnan(got[[0, 9]]).any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lanes", ["i", "l"])
def test_what_is_stored_itself_is_handed_on(lanes: str, device: str) -> None:
    with np.errstate(invalid="ignore"):
        made = logarithms(lanes, Store(LARGEST, (ROW,), (ROW,), TOP.value))
        got = assert_matches(made, {"x": spoiled()}, device)["largest"]
    assert np.isnan(got[1:7]).all() and not np.isnan(got[[0, 7, 8, 9]]).any()
