"""What products in streams bring closer of the matrices that they multiply by."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tirx
from tvm.tirx.stmt_functor import post_order_visit

from redfuser.codegen.cpu import generate
from redfuser.codegen.cpu.lowering.operands import Operand, plan_operands
from redfuser.codegen.cpu.lowering.prefetch import Prefetch
from redfuser.codegen.cpu.lowering.storage import Layout
from redfuser.expr import Axis, Expr, Load, Tensor, axis, index, load, substitute
from redfuser.expr.evaluate import evaluate
from redfuser.tile.ir import Buffer, Contract, Phase, Stream
from tests.codegen.cpu.lowering.test_prefetch import prefetches
from tests.codegen.cpu.programs import assert_matches, target
from tests.tile.build import Attention, program

ROW, ITEM, DEPTH, COLUMN = axis("i", 64), axis("l", 100), axis("k", 64), axis("j", 48)
STAGED = Buffer(Tensor("staged", (64, 64), "float32"), (ROW, DEPTH))
SCORE = Buffer(Tensor("score", (64, 32), "float32"), (ROW, ITEM))
SUMS = Buffer(Tensor("sums", (64, 48), "float32"), (ROW, COLUMN))
KEYS, VALUES = Tensor("keys", (100, 64), "float32"), Tensor("values", (100, 48), "float32")
LAYOUTS = {b.tensor: Layout(b, ROW, {}, 0) for b in (STAGED, SCORE, SUMS)}


def planned(*contracts: Contract) -> dict[str, tuple[Operand, ...]]:
    stream = Stream(ITEM, 32, contracts, index(0), index(100))
    found = plan_operands(Phase((), (STAGED, SCORE, SUMS), (stream,)), LAYOUTS)
    return {tensor.name: operands for tensor, operands in found.items()}


def scores(keys: Expr) -> Contract:
    return Contract(SCORE, STAGED.value, keys, DEPTH)


def test_keys_and_values_of_a_stream_are_found() -> None:
    values = load(VALUES, ITEM, COLUMN)
    found = planned(scores(load(KEYS, ITEM, DEPTH)), Contract(SUMS, SCORE.value, values, ITEM))
    assert found == {
        "score": (Operand(load(KEYS, ITEM, DEPTH), DEPTH, ITEM, 32),),
        "sums": (Operand(values, ITEM, ITEM, 32),),
    }


@pytest.mark.parametrize(
    "keys",
    [
        load(Tensor("keys", (64, 100), "float32"), DEPTH, ITEM),  # adjacent along the stream
        load(Tensor("same", (64, 64), "float32"), ROW, DEPTH),  # no other ones in the next tile
        load(Tensor("page", (100, 64), "float32"), load(Tensor("table", (100,), "int64"), ITEM), DEPTH),
    ],
)
def test_what_lies_otherwise_is_left(keys: Load) -> None:
    assert planned(scores(keys)) == {"score": ()}


def test_one_tile_has_no_next_one() -> None:
    add = Contract(SUMS, SCORE.value, load(VALUES, ITEM, COLUMN), ITEM)
    whole = Stream(ITEM, 100, (add,), index(0), index(100))
    assert plan_operands(Phase((), (STAGED, SCORE, SUMS), (whole,)), LAYOUTS) == {SUMS.tensor: ()}


def where(item: Prefetch | None, point: dict[Axis, int]) -> tuple[int, ...]:
    assert item is not None
    places = {a: index(n) for a, n in point.items()}
    return tuple(int(evaluate(substitute(i, places), {}, {})) for i in item.indices)


def test_the_terms_of_a_register_tile_bring_every_line_of_the_next_rows() -> None:
    operand = Operand(load(KEYS, ITEM, DEPTH), DEPTH, ITEM, 32)
    items = [operand.ahead(index(k), ITEM, 6, ROW) for k in range(64)]
    assert all(item is not None and item.nearest and not item.write for item in items)
    places = [where(item, {ITEM: 30, DEPTH: k}) for k, item in enumerate(items)]
    assert {(row, k // 16) for row, k in places} >= {(36 + row, line) for row in range(6) for line in range(4)}
    assert {row for row, _ in places} == set(range(36, 44))


def test_a_sum_along_the_stream_brings_the_same_place_of_the_next_tile() -> None:
    operand = Operand(load(VALUES, ITEM, COLUMN), ITEM, ITEM, 32)
    item = operand.ahead(index(7), COLUMN, 6, ROW)
    assert where(item, {ITEM: 7, COLUMN: 12}) == (39, 12)
    assert item is not None and not item.nearest


def test_nothing_is_read_beyond_the_end() -> None:
    keys, values = (
        Operand(load(KEYS, ITEM, DEPTH), DEPTH, ITEM, 32),
        Operand(load(VALUES, ITEM, COLUMN), ITEM, ITEM, 32),
    )
    assert where(keys.ahead(index(3), ITEM, 6, ROW), {ITEM: 97, DEPTH: 3}) == (99, 0)
    assert where(values.ahead(index(3), COLUMN, 6, ROW), {ITEM: 99, COLUMN: 0}) == (99, 0)


def test_a_tile_that_reads_vectors_of_it_or_has_rows_along_another_axis_brings_nothing() -> None:
    keys = Operand(load(KEYS, ITEM, DEPTH), DEPTH, ITEM, 32)
    assert keys.ahead(index(0), ROW, 6, ITEM) is None
    assert keys.ahead(index(0), ROW, 6, None) is None


@pytest.mark.parametrize("device", ["cpu", "cpu-avx2"])
def test_attention_prefetches_keys_and_values_in_the_loops_that_multiply(device: str) -> None:
    attention = Attention(q_len=40, kv_len=70, dim=32, v_dim=32, mask="none")
    made = program(attention.cascade(), "single-segment", i=32, j=32)
    loops: list[Any] = []
    body = generate(made, target(device)).body
    post_order_visit(body, lambda n: loops.append(n) if isinstance(n, tirx.For) else None)
    sums = [set(prefetches(loop)) for loop in loops if str(loop.loop_var.name).startswith("k")]
    assert {("k", 0, 3)} in sums and {("v", 0, 2)} in sums
    assert_matches(made, attention.inputs(), device)
