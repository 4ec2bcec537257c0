"""The cost model for GPUs: what must be dearer is dearer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redfuser.extents import Dim, size_of
from redfuser.tile.concrete import program_at
from redfuser.tuning.cost import Cost
from redfuser.tuning.costs.gpu import Footprint, GpuModel
from tests.codegen.gpu.programs import Attention as GpuAttention
from tests.codegen.gpu.programs import gpu, program, softmax
from tests.tile.build import Attention

MODEL = GpuModel(gpu("h800"))
ATTENTION = Attention(heads=12, q_len=512, kv_len=512, dim=64, v_dim=64, mask="none").cascade()
DECODE = Attention(heads=12, q_len=1, kv_len=4096, dim=64, v_dim=64, mask="none").cascade()
SMALL = Footprint(64, 16384)


def attention(rows: int, stages: int = 2, model: GpuModel = MODEL, footprint: Footprint = SMALL) -> Cost:
    """Attention with so many queries a block."""
    return model.cost(program(ATTENTION, options={"threads": 128, "stages": stages}, i=rows, j=64), [footprint])


def decode(segments: int) -> Cost:
    """One query on many keys."""
    strategy = "multi-segment" if segments > 1 else "single-segment"
    made = program(DECODE, strategy, segments, {"threads": 128, "stages": 0}, i=1, j=64)
    return MODEL.cost(made, [SMALL] * len(made.phases))


@pytest.mark.parametrize(("name", "clock"), [("a100-80g", 1410), ("h800", 1980), ("a10", 1695)])
def test_the_clock_follows_from_the_peak(name: str, clock: float) -> None:
    assert GpuModel(gpu(name)).clock_mhz == pytest.approx(clock, rel=0.03)


def test_blocks_share_a_multiprocessor_as_far_as_each_resource_goes() -> None:
    assert MODEL.resident(Footprint(32, 1024), 128) == 16
    assert MODEL.resident(Footprint(255, 1024), 128) == 2
    assert MODEL.resident(Footprint(32, 100 * 1024), 128) == 2
    assert MODEL.resident(Footprint(255, 227 * 1024), 1024) == 1


def test_compulsory_traffic_is_counted_once_and_products_take_their_time() -> None:
    cost = attention(64)
    assert cost.memory_bytes == 4 * 12 * 512 * 64 * 4
    least = 2 * 2 * 12 * 512 * 512 * 64 / MODEL.target.tf32_tflops / 1e6
    assert cost.arithmetic > least


def test_few_queries_a_block_read_shared_memory_more_often() -> None:
    assert attention(16).cache > attention(64).cache and attention(16).memory > attention(64).memory


def test_a_block_alone_without_a_pipeline_waits() -> None:
    large = Footprint(128, 200 * 1024)
    assert attention(64, stages=1, footprint=large).us > attention(64, stages=2, footprint=large).us


def test_segments_fill_the_device_where_rows_are_few() -> None:
    assert decode(8).us < decode(1).us and decode(8).launch == 2 * decode(1).launch


def test_products_in_other_ways_take_longer() -> None:
    tf32, split, plain = (attention(64, model=replace(MODEL, fp32=how)) for how in ("tf32", "3xtf32", "ieee"))
    assert tf32.arithmetic < split.arithmetic and tf32.arithmetic < plain.arithmetic


def test_groups_of_warps_multiply_scores_of_float32_and_not_what_these_weigh() -> None:
    without = replace(MODEL.target, features=tuple(f for f in MODEL.target.features if f != "wgmma"))
    # A tile of 64 × 64 × 64 reads four operands: keys once instead of four times, values four times with both.
    assert attention(64).cache / attention(64, model=GpuModel(without)).cache == pytest.approx((1 + 1 + 1 + 4) / 10)


def test_rows_are_bound_by_memory() -> None:
    cost = MODEL.cost(program(softmax(4096, 4096, "float16"), "resident", i=1, options={"threads": 256}))
    assert cost.memory_bytes >= 2 * 2 * 4096 * 4096 and cost.memory > cost.arithmetic + cost.cache


def test_a_phase_without_blocks_costs_nothing() -> None:
    """Of a decoder whose call makes looking at its keys not worth while."""
    new, past = size_of(Dim("new", 1, 2048)), size_of(Dim("past", 1, 8192))
    decoder = GpuAttention(q_len=new, kv_len=past + new, mask="causal", past=past).cascade()
    looking = program(decoder, options={"threads": 128, "stages": 2, "skip-hidden": 64}, i=64, j=64)
    launches = {}
    for length in (64, 512):
        known = program_at(looking, {"new": length, "past": 128})
        launches[length] = MODEL.cost(known, [SMALL] * len(known.phases)).launch
    alone = MODEL.cost(program_at(program(decoder, i=64, j=64), {"new": 64, "past": 128}), [SMALL]).launch
    assert launches == {64: alone, 512: 3 * alone}
