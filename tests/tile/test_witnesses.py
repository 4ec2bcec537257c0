"""Which extrema may pass over NaNs, and which may not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from redfuser.expr import Expr, Tensor, axis, cast, index, load, number, op
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Reduce, Statement, Store, Stream
from redfuser.tile.witnesses import witnessed

ROWS, WIDTH, DIM = 4, 96, 8
ROW, ITEM, COLUMN = axis("i", ROWS), axis("l", WIDTH), axis("j", DIM)
X = load(Tensor("x", (ROWS, WIDTH), "float32"), ROW, ITEM)
V = load(Tensor("v", (WIDTH, DIM), "float32"), ITEM, COLUMN)


def buffer(name: str, *axes: object) -> Buffer:
    chosen = [a for a in (ROW, COLUMN, ITEM) if a in axes]
    return Buffer(Tensor(name, tuple(32 if a == ITEM else a.extent for a in chosen), "float32"), tuple(chosen))


TOP, BASE, BEFORE, TOTAL, FACTOR = (buffer(name, ROW) for name in ("top", "base", "before", "total", "factor"))
SUMS, SCORE = buffer("sums", ROW, COLUMN), buffer("score", ROW, ITEM)
OUT = Tensor("y", (ROWS,), "float32")
MATRIX = Tensor("z", (ROWS, DIM), "float32")
PLANE = Tensor("p", (ROWS, WIDTH), "float32")

SEE = Reduce(TOP, "max", X, ITEM)
START = (Fill(TOP, -math.inf), Fill(TOTAL, 0))
ADD = Reduce(TOTAL, "sum", op("exp", op("sub", X, TOP.value)), ITEM)


def stream(*body: Statement, start: int = 0, stop: int = WIDTH) -> Stream:
    return Stream(ITEM, 32, body, index(start), index(stop))


def store(value: Expr) -> Store:
    return Store(OUT, (ROW,), (ROW,), value)


def finite(top: Expr) -> Expr:
    return op("select", op("eq", top, number(-math.inf, "float32")), number(0, "float32"), top)


def shown(*body: Statement) -> set[str]:
    return {extremum.target.tensor.name for extremum in witnessed([Phase((), (), body)])}


SPOILED = op("or", op("isnan", TOP.value), op("isnan", TOTAL.value))
LOGARITHM = op("add", op("log", TOTAL.value), TOP.value)
RESCALE = Map(TOTAL, op("mul", TOTAL.value, op("exp", op("sub", BEFORE.value, BASE.value))))
ATTENTION = (
    Map(BEFORE, TOP.value),
    Map(SCORE, op("mul", X, number(0.125, "float32"))),
    Reduce(TOP, "max", SCORE.value, ITEM),
    Map(BASE, finite(TOP.value)),
    Map(FACTOR, op("exp", op("sub", BEFORE.value, BASE.value))),
    RESCALE,
    Map(SCORE, op("exp", op("sub", SCORE.value, BASE.value))),
    Reduce(TOTAL, "sum", SCORE.value, ITEM),
    Map(SUMS, op("mul", SUMS.value, FACTOR.value)),
    Contract(SUMS, SCORE.value, V, ITEM),
)
QUOTIENT = Store(MATRIX, (ROW, COLUMN), (ROW, COLUMN), op("div", SUMS.value, TOTAL.value))


@pytest.mark.parametrize(
    "body",
    [
        (stream(SEE), stream(ADD), store(LOGARITHM)),
        (stream(SEE), stream(ADD), store(cast(LOGARITHM, "float16"))),
        (stream(SEE), stream(ADD), stream(Store(PLANE, (ROW, ITEM), (ROW, ITEM), op("div", X, LOGARITHM)))),
        (Fill(SUMS, 0), stream(*ATTENTION), QUOTIENT),
        (Fill(SUMS, 0), stream(*ATTENTION), store(TOTAL.value)),
        (stream(SEE), store(number(1, "float32"))),
        # whatever is made of what is a NaN either way
        (stream(SEE), stream(ADD), store(op("select", op("isnan", LOGARITHM), number(0, "float32"), LOGARITHM))),
        (stream(SEE), stream(ADD), store(op("max", LOGARITHM, number(0, "float32")))),
        (stream(SEE), stream(ADD), Store(Tensor("n", (ROWS,), "int32"), (ROW,), (ROW,), cast(LOGARITHM, "int32"))),
        (stream(SEE), stream(ADD), store(op("select", SPOILED, number(0, "float32"), TOP.value))),
    ],
)
def test_a_sum_of_exponentials_is_a_witness(body: Sequence[Statement]) -> None:
    assert shown(*START, *body) == {"top"}


@pytest.mark.parametrize(
    "body",
    [
        # the extremum is stored itself
        (stream(SEE), stream(ADD), store(TOP.value)),
        (stream(SEE), stream(ADD), Map(BASE, TOP.value), store(BASE.value)),
        # nothing is summed, so that the other elements of the row are numbers
        (stream(SEE), stream(Store(PLANE, (ROW, ITEM), (ROW, ITEM), op("exp", op("sub", X, TOP.value))))),
        # the sum is of other elements, along less of the axis, along another axis, or begun anew
        (stream(SEE), stream(Reduce(TOTAL, "sum", op("exp", TOP.value), ITEM)), store(LOGARITHM)),
        (stream(SEE), stream(ADD, stop=64), store(LOGARITHM)),
        (stream(SEE), stream(ADD), Fill(TOTAL, 0), store(LOGARITHM)),
        (stream(SEE), stream(Fill(TOTAL, 0), ADD), store(LOGARITHM)),
        (stream(SEE), stream(ADD), stream(Map(TOTAL, number(2, "float32")), start=32), store(LOGARITHM)),
        # what it is compared with, or chosen by
        (stream(SEE), stream(ADD), store(op("max", TOP.value, number(0, "float32")))),
        (stream(SEE), stream(ADD), store(op("select", op("isnan", TOP.value), number(0, "float32"), X))),
        (stream(SEE), stream(ADD), store(op("select", SPOILED, TOP.value, number(0, "float32")))),
        # it decides where something is stored
        (stream(SEE), stream(ADD), Store(OUT, (ROW,), (cast(TOP.value, "int64"),), LOGARITHM)),
        # elements are written anew between
        (stream(SEE), stream(Store(X.tensor, (ROW, ITEM), (ROW, ITEM), TOTAL.value), ADD), store(LOGARITHM)),
        # it decides how far a stream goes
        (stream(SEE), stream(ADD), Stream(ITEM, 32, (), index(0), cast(TOP.value, "int64")), store(LOGARITHM)),
        # streams inside streams
        (stream(SEE), stream(stream(ADD)), store(LOGARITHM)),
    ],
)
def test_anything_else_is_none(body: Sequence[Statement]) -> None:
    assert not shown(*START, *body)


def test_an_extremum_of_integers_has_no_nan_to_pass_over() -> None:
    whole = Buffer(Tensor("whole", (ROWS,), "int32"), (ROW,))
    assert not shown(stream(Reduce(whole, "max", cast(X, "int32"), ITEM)))


def test_one_that_stands_at_two_places_needs_a_witness_at_both() -> None:
    later = (Fill(TOP, -math.inf), stream(SEE), store(TOP.value))
    assert not shown(*START, stream(SEE), stream(ADD), store(LOGARITHM), *later)


SEGMENT = axis("segment", 3)
TOPS, TOTALS = (Tensor(name, (3, ROWS), "float32") for name in ("tops", "totals"))
OF_SEGMENT = op("mul", SEGMENT, index(32))
PART_TOP, PART_TOTAL = load(TOPS, SEGMENT, ROW), load(TOTALS, SEGMENT, ROW)
WEIGHT = op("exp", op("sub", PART_TOP, TOP.value))
MERGED = (*START, Reduce(TOP, "max", PART_TOP, SEGMENT), Reduce(TOTAL, "sum", op("mul", PART_TOTAL, WEIGHT), SEGMENT))


def merged(part: Store, *last: Statement, workspaces: Sequence[Tensor] = (TOPS, TOTALS)) -> set[str]:
    """Values of the extrema that may pass over NaNs, where segments of rows are merged in a second phase."""
    inside = Stream(ITEM, 32, (SEE, ADD), OF_SEGMENT, op("add", OF_SEGMENT, index(32)))
    place = (SEGMENT, ROW)
    first = Phase((), (), (*START, inside, Store(TOPS, place, place, TOP.value), part))
    return {str(extremum.value) for extremum in witnessed([first, Phase((), (), last)], workspaces)}


SUM_OF_SEGMENT = Store(TOTALS, (SEGMENT, ROW), (SEGMENT, ROW), TOTAL.value)


def test_sums_of_segments_are_witnesses_once_they_are_merged() -> None:
    assert merged(SUM_OF_SEGMENT, *MERGED, store(LOGARITHM)) == {str(X), str(PART_TOP)}


@pytest.mark.parametrize(
    "last",
    [
        (*MERGED, store(TOP.value)),
        (*MERGED, Fill(TOTAL, 1), store(LOGARITHM)),
        # only the segment with the NaN shows it
        (*MERGED, Store(PLANE, (SEGMENT, ROW), (ROW, SEGMENT), op("div", PART_TOTAL, TOP.value))),
        (*MERGED[:-1], Reduce(TOTAL, "max", PART_TOTAL, SEGMENT), store(LOGARITHM)),
        (*MERGED[:-1], Map(TOTAL, load(TOTALS, index(0), ROW)), store(LOGARITHM)),
        # of another row
        (*MERGED[:-1], Reduce(TOTAL, "sum", load(TOTALS, SEGMENT, index(0)), SEGMENT), store(LOGARITHM)),
    ],
)
def test_segments_that_are_merged_otherwise_are_none(last: Sequence[Statement]) -> None:
    assert str(X) not in merged(SUM_OF_SEGMENT, *last)


def test_what_a_phase_stores_for_others_than_later_phases_counts() -> None:
    assert str(X) not in merged(SUM_OF_SEGMENT, *MERGED, store(LOGARITHM), workspaces=(TOTALS,))
    elsewhere = Store(TOTALS, (SEGMENT, ROW), (index(0), ROW), TOTAL.value)
    assert str(X) not in merged(elsewhere, *MERGED, store(LOGARITHM))
