"""What is kept in a buffer, which products are matrix products, which buffers share storage."""

from __future__ import annotations

from redfuser.expr import Tensor, axis, index, load, number, op
from redfuser.extents import Dim, Extent, size_of
from redfuser.tile.ir import Buffer, Contract, Fill, Map, Phase, Reduce, Stream, Tile
from redfuser.tile.products import split_product
from redfuser.tile.sharing import computed, expensive, shared_values
from redfuser.tile.strategies.reuse import reuse_buffers
from tests.tile.build import tensor

R, J, E = axis("i", 4), axis("j", 8), axis("e", 3)
S, V, T = load(tensor("s", R, J), R, J), load(tensor("v", J, E), J, E), load(tensor("t", R), R)
TWO = number(2.0, "float32")


def test_shared_values_are_the_largest_common_ones() -> None:
    scaled = op("mul", S, TWO)
    weight = op("exp", op("sub", scaled, T))
    assert shared_values([[scaled], [weight], [op("mul", weight, V)]]) == {scaled, weight}
    assert shared_values([[weight], [op("mul", weight, V)]]) == {weight}


def test_loads_casts_and_predicates_are_not_worth_sharing() -> None:
    assert not shared_values([[S], [op("exp", S)]])
    assert not computed(op("lt", op("exp", S), TWO)) and computed(op("exp", S))


def test_expensive_along_an_axis() -> None:
    mean = op("div", T, TWO)
    assert expensive(mean) and expensive(op("sub", S, mean))
    assert not expensive(op("sub", S, mean), J)
    assert expensive(op("div", S, T), J) and not expensive(op("pow", S, TWO))


def test_split_moves_constants_and_divisors_to_the_left() -> None:
    value = op("mul", op("div", op("mul", TWO, S), T), V)
    split = split_product(value, (R, E), J, lambda a: a.extent)
    assert split == (op("div", op("mul", TWO, S), T), V)


def test_no_split_without_an_axis_on_each_side() -> None:
    assert split_product(op("mul", S, V), (R, E), J, lambda a: 1 if a == R else a.extent) is None
    assert split_product(op("mul", S, op("exp", S)), (R,), J, lambda a: a.extent) is None
    assert split_product(op("add", S, V), (R, E), J, lambda a: a.extent) is None
    assert split_product(op("div", S, V), (R, E), J, lambda a: a.extent) is None


A = Buffer(Tensor("a", (2, 4), "float32"), (R, J))
B = Buffer(Tensor("b", (2, 4), "float32"), (R, J))
TOTAL = Buffer(Tensor("total", (2,), "float32"), (R,))


def reused(*body: Map | Reduce | Fill | Contract, buffers: tuple[Buffer, ...] = (A, B, TOTAL)) -> Phase:
    stream = Stream(J, 4, tuple(body), index(0), index(8))
    return reuse_buffers(Phase((Tile(R, 2),), buffers, (Fill(TOTAL, 0), stream)))


FIRST, SECOND = Map(A, op("mul", S, TWO)), Map(B, op("exp", A.value))


def test_a_value_takes_the_buffer_it_replaces() -> None:
    phase = reused(FIRST, SECOND, Reduce(TOTAL, "sum", B.value, J))
    assert phase.buffers == (A, TOTAL)
    assert str(phase.body[1].body[1]) == "map a[i, j] = exp(a[i, j])"  # type: ignore[union-attr]


def test_a_value_still_needed_keeps_its_buffer() -> None:
    assert reused(FIRST, SECOND, Reduce(TOTAL, "sum", op("mul", A.value, B.value), J)).buffers == (A, B, TOTAL)


def test_another_type_or_shape_keeps_its_buffer() -> None:
    half = Buffer(Tensor("b", (2, 4), "float16"), (R, J))
    body = (FIRST, Map(half, op("exp", A.value)), Reduce(TOTAL, "sum", half.value, J))
    assert half in reused(*body, buffers=(A, half, TOTAL)).buffers
    row = Buffer(Tensor("row", (2,), "float32"), (R,))
    assert row in reused(Map(row, op("exp", TOTAL.value)), buffers=(row, TOTAL)).buffers


def test_a_tile_moves_into_a_buffer_over_the_whole_axis() -> None:
    whole = Buffer(Tensor("w", (2, 8), "float32"), (R, J))
    phase = reused(FIRST, Map(whole, op("exp", A.value)), buffers=(A, whole, TOTAL))
    assert [b.tensor.shape for b in phase.buffers] == [(2, 8), (2,)]


def test_buffers_over_an_open_axis_are_shared_where_one_is_surely_the_larger() -> None:
    length = size_of(Dim("length", 1, 300))
    along, rows = axis("j", length), axis("i", 4)
    s = load(Tensor("s", (4, length), "float32"), rows, along)

    def phase(first: Extent, second: Extent) -> Phase:
        a, b = (Buffer(Tensor(name, (2, n), "float32"), (rows, along)) for name, n in (("a", first), ("b", second)))
        total = Buffer(Tensor("total", (2,), "float32"), (rows,))
        maps = Map(a, op("mul", s, TWO)), Map(b, op("exp", a.value))
        stream = Stream(along, 4, (*maps, Reduce(total, "sum", b.value, along)), index(0), index(length))
        return reuse_buffers(Phase((Tile(rows, 2),), (a, b, total), (Fill(total, 0), stream)))

    assert [b.tensor.shape for b in phase(length, length).buffers] == [(2, length), (2,)]
    assert [b.tensor.shape for b in phase(4, length + 3).buffers] == [(2, length + 3), (2,)]
    assert len(phase(4, length).buffers) == 3


def test_unused_buffers_are_dropped() -> None:
    assert reused(FIRST, Reduce(TOTAL, "sum", A.value, J)).buffers == (A, TOTAL)
