"""Each rule of the verifier: a program that keeps it, and one that breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redfuser.expr import Axis, Expr, Tensor, axis, index, load, op
from redfuser.tile import Schedule, TileError, TileProgram, verify
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Reduce, Statement, Store, Stream, Tile
from tests.tile.build import STRATEGIES, Attention, Rows, program, tensor, value

R, J, D = axis("i", 6), axis("j", 8), axis("d", 3)
X, Q, K = tensor("x", R, J), tensor("q", R, D), tensor("k", J, D)
Y, Z = tensor("y", R), tensor("z", R, J)
SUM = Buffer(Tensor("s", (2,), "float32"), (R,))
CELL = Buffer(Tensor("c", (2, 4), "float32"), (R, J))
WHOLE = Buffer(Tensor("w", (2, 8), "float32"), (R, J))


def make(*body: Statement, buffers: tuple[Buffer, ...] = (SUM, CELL, WHOLE), out: Tensor = Y) -> TileProgram:
    """One phase over tiles of two rows."""
    phase = Phase((Tile(R, 2),), buffers, body)
    return TileProgram("p", (X, Q, K), (out,), (), (phase,), Schedule("single-segment"))


def stream(*body: Statement, axis: Axis = J, tile: int = 4, start: int = 0, stop: int = 8) -> Stream:
    return Stream(axis, tile, body, index(start), index(stop))


def at(tensor: Tensor, *axes: Expr) -> Expr:
    return load(tensor, *axes)


CLEAR = Fill(SUM, 0)
ADD = Reduce(SUM, "sum", at(X, R, J), J)
WRITE = Store(Y, (R,), (R,), SUM.value)
PRODUCT = Contract(CELL, at(Q, R, D), at(K, J, D), D)
WRITE_CELL = Store(Z, (R, J), (R, J), CELL.value)


def refuses(made: TileProgram, rule: str) -> None:
    with pytest.raises(TileError, match=rule):
        verify(made)


def test_accepts_streams_products_and_whole_buffers() -> None:
    verify(make(CLEAR, stream(ADD), WRITE))
    verify(make(stream(Fill(CELL, 0), PRODUCT, WRITE_CELL), out=Z))
    verify(make(stream(Map(WHOLE, at(X, R, J))), CLEAR, stream(Reduce(SUM, "sum", WHOLE.value, J)), WRITE))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_accepts_what_strategies_build(strategy: str) -> None:
    for cascade in (Attention().cascade(), Rows().two_softmaxes()):
        verify(program(cascade, strategy, segments=2))


def test_buffers_are_declared_with_the_tile_shape() -> None:
    refuses(make(CLEAR, stream(ADD), WRITE, buffers=()), "not declared")
    refuses(make(CLEAR, stream(ADD), WRITE, buffers=(SUM, SUM)), "declared twice")
    long = Buffer(Tensor("s", (3,), "float32"), (R,))
    refuses(make(Fill(long, 0), Store(Y, (R,), (R,), long.value), buffers=(long,)), "3 points of i")
    flat = Buffer(Tensor("s", (2, 1), "float32"), (R,))
    refuses(make(Fill(flat, 0), buffers=(flat,)), "one extent for each axis")
    refuses(make(Fill(CELL, 0)), "4 points of j")


def test_values_vary_only_where_the_statement_runs() -> None:
    refuses(make(Map(SUM, at(X, R, J)), WRITE), "varies along j")
    refuses(make(CLEAR, stream(Map(SUM, at(X, R, J))), WRITE), "varies along j")
    verify(make(CLEAR, stream(Map(SUM, at(X, R, J)), tile=1), WRITE))


def test_nothing_is_read_before_it_is_written() -> None:
    refuses(make(WRITE), "read before it is written")
    refuses(make(stream(ADD), WRITE), "read before it is written")
    refuses(make(stream(Map(SUM, value(1))), WRITE), "read before it is written")
    refuses(make(stream(Map(CELL, at(X, R, J))), CLEAR, stream(Reduce(SUM, "sum", CELL.value, J)), WRITE), "before it")
    refuses(make(Map(SUM, at(Tensor("u", (6,), "float32"), R)), WRITE), "not an input")


def test_buffers_are_read_at_their_own_axes() -> None:
    refuses(make(CLEAR, Map(SUM, at(SUM.tensor, index(0))), WRITE), "own axes")


def test_a_reduction_folds_an_axis_its_target_lacks() -> None:
    refuses(make(CLEAR, Reduce(SUM, "sum", at(X, R, index(0)), R), WRITE), "folds i")
    refuses(make(CLEAR, stream(Reduce(SUM, "mean", at(X, R, J), J)), WRITE), "unknown combiner")


@pytest.mark.parametrize(
    ("left", "right", "rule"),
    [
        (at(Q, R, index(0)), at(K, J, D), "must vary with d"),
        (at(Q, R, D), at(Q, R, D), "neither operand"),
        (op("mul", at(Q, R, D), at(K, J, D)), at(K, J, D), "other lacks"),
    ],
)
def test_operands_of_a_contraction(left: Expr, right: Expr, rule: str) -> None:
    refuses(make(stream(Fill(CELL, 0), Contract(CELL, left, right, D), WRITE_CELL), out=Z), rule)


def test_streams_stay_inside_a_free_axis() -> None:
    refuses(make(CLEAR, stream(ADD, stop=9), WRITE), "inside its axis")
    refuses(make(CLEAR, stream(ADD, start=-1), WRITE), "inside its axis")
    refuses(make(CLEAR, stream(ADD, tile=9), WRITE), "free axis")
    refuses(make(CLEAR, stream(ADD, axis=R, tile=2, stop=6), WRITE), "free axis")


def test_grid_tiles() -> None:
    made = make(CLEAR, stream(ADD), WRITE)
    for grid in ((Tile(R, 0),), (Tile(R, 7),), (Tile(R, 2), Tile(R, 2))):
        refuses(replace(made, phases=(replace(made.phases[0], grid=grid),)), "grid tile")


def test_every_element_is_stored_once() -> None:
    refuses(make(CLEAR), "never stored")
    refuses(make(CLEAR, WRITE, WRITE), "two statements")
    refuses(make(CLEAR, stream(WRITE)), "every tile of j")
    refuses(make(CLEAR, Store(X, (R,), (R, index(0)), SUM.value), WRITE), "not an output")
    refuses(make(CLEAR, Store(Y, (R,), (op("add", R, index(1)),), SUM.value)), "leaves the tensor")
    refuses(make(CLEAR, Store(Y, (R,), (op("floordiv", R, index(2)),), SUM.value)), "exactly once")
    refuses(make(CLEAR, Store(Y, (R,), (), SUM.value)), "one index")
    refuses(make(CLEAR, Store(Y, (J,), (J,), value(0))), "every block along i")
    half = stream(Map(CELL, at(X, R, J)), WRITE_CELL, stop=4)
    refuses(make(half, out=Z), "don't cover j")
    flat = Tensor("z", (48,), "float32")
    position = op("add", op("mul", R, index(8)), J)
    verify(make(stream(Map(CELL, at(X, R, J)), Store(flat, (R, J), (position,), CELL.value)), out=flat))


def test_workspaces_are_filled_by_an_earlier_phase() -> None:
    made = program(Rows().variance(), "multi-segment", segments=2, l=5)
    verify(made)
    refuses(replace(made, phases=made.phases[::-1]), "filled workspace")
    refuses(replace(made, workspaces=(*made.workspaces, made.workspaces[0])), "one name")


@pytest.mark.parametrize(("length", "rule"), [(4, ""), (3, "don't cover j"), (5, "inside its axis")])
def test_segments_that_store_partition_the_axis(length: int, rule: str) -> None:
    segment = axis("segment", 2)
    start = op("mul", segment, index(length))
    body = Stream(J, 4, (Map(CELL, at(X, R, J)), WRITE_CELL), start, op("add", start, index(4)))
    phase = Phase((Tile(segment, 1), Tile(R, 2)), (CELL,), (body,))
    made = TileProgram("p", (X,), (Z,), (), (phase,))
    if rule:
        refuses(made, rule)
    else:
        verify(made)
