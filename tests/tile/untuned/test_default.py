"""The untuned choice on CPUs, and the traffic it is judged by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade, Output, Reduction
from redfuser.expr import axis, load, op
from redfuser.targets import CpuTarget
from redfuser.tile import Choice, build, default_schedule, verify
from redfuser.tile.traffic import traffic
from redfuser.tile.untuned.shapes import contiguous_axis, stationary_row
from tests.tile.build import Attention, Rows, tensor

CPU = CpuTarget("test", "", "x86-64-v4", 512, 4, 32, 1024, 3.0, 40.0)


def choose(cascade: Cascade, cpu: CpuTarget = CPU) -> Choice:
    """The choice; it builds."""
    derivation = derive(cascade)
    choice = default_schedule(cascade, derivation, cpu)
    verify(build(cascade, derivation, choice.schedule))
    return choice


@pytest.mark.parametrize(
    ("heads", "q_len", "rows"), [(12, 512, 64), (12, 48, 48), (2, 128, 32), (1, 100, 16), (8, 24, 24)]
)
def test_attention_streams_keys_past_queries_in_lanes(heads: int, q_len: int, rows: int) -> None:
    """The widest row tile that leaves two blocks a core."""
    schedule = choose(Attention(heads=heads, q_len=q_len, kv_len=200, mask="none").cascade()).schedule
    assert (schedule.strategy, schedule.lanes) == ("single-segment", "i")
    assert dict(schedule.tiles) == {"i": rows, "j": 64}


def test_decode_of_few_heads_is_cut_in_segments() -> None:
    choice = choose(Attention(heads=2, q_len=1, kv_len=4096, mask="none").cascade())
    assert (choice.schedule.strategy, choice.schedule.segments, choice.schedule.lanes) == ("multi-segment", 4, "")
    assert "cut in 4" in choice.why


def test_no_segment_of_a_product_is_too_long_to_be_summed_in_float32() -> None:
    choice = choose(Attention(heads=12, q_len=300, kv_len=70001, mask="none").cascade())
    assert (choice.schedule.strategy, choice.schedule.segments) == ("multi-segment", 9)
    assert "sums of 8192 points at most" in choice.why
    assert choose(Attention(heads=12, q_len=300, kv_len=8192, mask="none").cascade()).schedule.segments == 1


@pytest.mark.parametrize(("heads", "kv_len"), [(12, 4096), (2, 300)])
def test_decode_of_many_heads_or_few_keys_is_not(heads: int, kv_len: int) -> None:
    cascade = Attention(heads=heads, q_len=1, kv_len=kv_len, mask="none").cascade()
    assert (choose(cascade).schedule.strategy, choose(cascade).schedule.segments) == ("resident", 1)


def test_decode_reads_keys_then_values_where_the_last_cache_holds_them_and_streams_them_elsewhere() -> None:
    attention = Attention(heads=12, q_len=1, kv_len=4096, mask="none")
    cascade = attention.cascade()
    size = sum(4 * t.size for t in cascade.inputs)
    held, exceeded = (replace(CPU, l3_kb=-(-size // 1024) - n) for n in (0, 1))
    assert choose(cascade, held).schedule.strategy == "resident"
    assert "operands are read one after the other" in choose(cascade, held).why
    assert choose(cascade, exceeded).schedule.strategy == "single-segment"
    assert choose(cascade, replace(held, l2_kb=16)).schedule.strategy == "single-segment"
    many = Attention(heads=12, q_len=16, kv_len=64, mask="none").cascade()
    assert choose(many).schedule.strategy == "single-segment"


def test_grouped_heads_share_loads_when_there_is_one_query() -> None:
    assert stationary_row(Attention(q_len=1).cascade()) is None
    assert stationary_row(Attention().cascade()) == axis("i", 7)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "quantise"])
def test_rows_that_fit_stay_resident(name: str) -> None:
    choice = choose(getattr(Rows(), name)())
    assert (choice.schedule.strategy, choice.schedule.lanes) == ("resident", "l")


def test_an_empty_axis_stays_resident() -> None:
    cascade = Rows(axis("i", 3), axis("l", 0)).logsumexp()
    assert default_schedule(cascade, derive(Rows().logsumexp()), CPU).schedule.strategy == "resident"


def test_few_long_rows_are_cut_in_segments() -> None:
    rows = Rows(axis("i", 1), axis("l", 1 << 20))
    assert choose(rows.logsumexp()).schedule.strategy == "multi-segment"
    assert choose(rows.softmax()).schedule.strategy == "single-segment"


def test_lanes_follow_the_contiguous_axis() -> None:
    i, j = axis("i", 40), axis("j", 30)
    x = load(tensor("x", j, i), j, i)
    m = Reduction(tensor("m", i), "max", (i,), j, x)
    t = Reduction(tensor("t", i), "sum", (i,), j, op("exp", op("sub", x, m.value)))
    output = Output(tensor("y", i), (i,), (i,), t.value)
    cascade = Cascade("columns", (i,), j, (x.tensor,), (), (m, t), (output,))
    assert contiguous_axis(cascade) == i
    schedule = choose(cascade).schedule
    assert schedule.lanes == "i" and dict(schedule.tiles)["i"] == 32


def test_traffic_of_attention() -> None:
    moved = traffic(Attention(heads=12, q_len=512, kv_len=512, dim=64, v_dim=64, mask="none").cascade())
    tensor_bytes, score_bytes = 12 * 512 * 64 * 4, 12 * 512 * 512 * 4
    assert moved.read_bytes == 3 * tensor_bytes and moved.write_bytes == tensor_bytes
    assert moved.unfused_write_bytes > 2 * score_bytes and moved.saved > 10
    assert 4 * 12 * 512 * 512 * 64 < moved.flops < 4.2 * 12 * 512 * 512 * 64


def test_traffic_of_a_row_cascade() -> None:
    moved = traffic(Rows().softmax())
    size, row = 5 * 23 * 4, 5 * 4
    assert (moved.read_bytes, moved.write_bytes) == (size, size)
    assert moved.unfused_read_bytes == 3 * size + 3 * row
    assert moved.unfused_write_bytes == size + 2 * row
