"""Which differences from a centre are computed in singles, which sums by tiles of singles, and which are not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from redfuser.codegen.cpu.lowering.centres import MOST_POINTS, split_centres
from redfuser.expr import Axis, Expr, Tensor, axis, cast, index, load, number, op
from redfuser.extents import Dim, size_of
from redfuser.tile.ir import Buffer, Fill, Map, Phase, Reduce, Statement, Store, Stream, Tile

SINGLE, DOUBLE = "float32", "float64"
ROWS, LENGTH = 8, 64
ROW, L = axis("i", ROWS), axis("l", LENGTH)
X = load(Tensor("x", (ROWS, LENGTH), SINGLE), ROW, L)
WIDE = cast(X, DOUBLE)


def buffer(name: str, dtype: str = DOUBLE, *axes: Axis) -> Buffer:
    return Buffer(Tensor(name, (1, *(a.extent for a in axes)), dtype), (ROW, *axes))


TOTAL, MEAN, SQUARES, OTHER = (buffer(name) for name in ("total", "mean", "squares", "other"))
MEAN_OF_TOTAL = op("div", TOTAL.value, number(LENGTH, DOUBLE))
DIFFERENCE = op("sub", WIDE, MEAN.value)
SQUARE = op("mul", DIFFERENCE, DIFFERENCE)
Y = Tensor("y", (ROWS, LENGTH), SINGLE)


def stream(*body: Statement, tile: int = 16, over: Axis = L, stop: int | None = None) -> Stream:
    return Stream(over, tile, body, index(0), index(over.extent if stop is None else stop))


def phase(
    summed: Stream | None = None,
    squared: Stream | None = None,
    stored: Expr = DIFFERENCE,
    more: Sequence[Statement] = (),
) -> Phase:
    """A mean, the squared differences from it, and the differences stored: what a norm does."""
    body = (
        Fill(TOTAL, 0.0),
        summed or stream(Reduce(TOTAL, "sum", WIDE, L)),
        Map(MEAN, MEAN_OF_TOTAL),
        Fill(SQUARES, 0.0),
        squared or stream(Reduce(SQUARES, "sum", SQUARE, L)),
        *more,
        stream(Store(Y, (ROW, L), (ROW, L), cast(stored, SINGLE))),
    )
    return Phase((Tile(ROW, 1),), (TOTAL, MEAN, SQUARES), body)


def flat(body: Sequence[Statement]) -> Iterator[Statement]:
    for statement in body:
        yield from flat(statement.body) if isinstance(statement, Stream) else (statement,)


def by_tiles(split: Phase) -> set[str]:
    """Names of sums that run in singles within a tile."""
    found = [s.target.tensor for s in flat(split.body) if isinstance(s, Reduce)]
    return {tensor.name.removesuffix(".tile") for tensor in found if tensor.dtype == SINGLE}


def stores_singles(split: Phase) -> bool:
    """Whether what is stored is computed in singles."""
    values = [s.value for s in flat(split.body) if isinstance(s, Store)]
    return bool(values) and all(DOUBLE not in {n.dtype for n in _nodes(value)} for value in values)


def _nodes(value: Expr) -> Iterator[Expr]:
    yield value
    for child in value.children:
        yield from _nodes(child)


def test_a_norm_runs_in_singles() -> None:
    split = split_centres(phase(), L)
    assert by_tiles(split) == {"total", "squares"} and stores_singles(split)
    assert {b.tensor.name for b in split.buffers} >= {"mean.high", "mean.low", "total.origin"}


@pytest.mark.parametrize(
    ("given", "lanes"),
    [
        (phase(), None),
        (phase(), axis("j", 4)),
        (phase(more=[Store(Tensor("z", (ROWS,), DOUBLE), (ROW,), (ROW,), MEAN.value)]), L),
        (phase(stored=X, squared=stream(Reduce(SQUARES, "sum", WIDE, L))), L),
    ],
    ids=["no lanes", "lanes along another axis", "a double is stored", "no difference from the centre"],
)
def test_what_is_left_as_it_is(given: Phase, lanes: Axis | None) -> None:
    assert split_centres(given, lanes) is given


def test_a_centre_along_the_lanes_is_none() -> None:
    along = buffer("along", DOUBLE, L)
    values = Map(along, op("mul", WIDE, number(2, DOUBLE)))
    body = (values, stream(Store(Y, (ROW, L), (ROW, L), cast(op("sub", WIDE, along.value), SINGLE))))
    given = Phase((Tile(ROW, 1),), (along,), body)
    assert split_centres(given, L) is given


def test_long_tiles_are_summed_in_doubles() -> None:
    long = MOST_POINTS + 1
    split = split_centres(
        phase(stream(Reduce(TOTAL, "sum", WIDE, L), tile=long), stream(Reduce(SQUARES, "sum", SQUARE, L), tile=long)), L
    )
    assert not by_tiles(split) and stores_singles(split)


@pytest.mark.parametrize(
    "squared",
    [
        Reduce(SQUARES, "max", SQUARE, L),
        Reduce(SQUARES, "sum", op("abs", DIFFERENCE), L),
        Reduce(SQUARES, "sum", op("mul", DIFFERENCE, WIDE), L),
        Reduce(SQUARES, "sum", op("mul", op("abs", DIFFERENCE), op("abs", DIFFERENCE)), L),
    ],
    ids=["no sum", "no product", "a product of two", "no difference"],
)
def test_only_sums_of_squares_go_by_tiles(squared: Reduce) -> None:
    assert by_tiles(split_centres(phase(squared=stream(squared)), L)) == {"total"}


@pytest.mark.parametrize(
    "given",
    [
        phase(stream(Reduce(TOTAL, "max", WIDE, L))),
        phase(stream(Reduce(TOTAL, "sum", WIDE, L), stop=LENGTH - 1)),
        phase(stream(Reduce(TOTAL, "sum", op("mul", WIDE, WIDE), L))),
        phase(more=[Map(OTHER, TOTAL.value)]),
        phase(stream(Reduce(TOTAL, "sum", cast(buffer("copy", SINGLE, L).value, DOUBLE), L))),
    ],
    ids=["no sum", "not the whole axis", "no element", "read by others too", "elements kept on chip"],
)
def test_only_sums_that_make_the_centre_start_from_an_element(given: Phase) -> None:
    given = replace(given, buffers=(*given.buffers, OTHER, buffer("copy", SINGLE, L)))
    split = split_centres(given, L)
    assert by_tiles(split) == {"squares"}
    assert "total.origin" not in {b.tensor.name for b in split.buffers}


def test_a_sum_of_a_length_known_on_the_call_starts_from_no_element() -> None:
    along = axis("l", size_of(Dim("length", 1, LENGTH)))
    x = cast(load(Tensor("x", (ROWS, along.extent), SINGLE), ROW, along), DOUBLE)
    difference = op("sub", x, MEAN.value)
    square = Reduce(SQUARES, "sum", op("mul", difference, difference), along)
    given = phase(stream(Reduce(TOTAL, "sum", x, along), over=along), stream(square, over=along))
    assert by_tiles(split_centres(given, along)) == {"squares"}
