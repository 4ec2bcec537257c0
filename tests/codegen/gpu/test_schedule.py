"""Untuned schedules: what is tried first for selections, and for open sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu.emission.emit import emit
from redfuser.codegen.gpu.gate import foreseen_problem
from redfuser.codegen.gpu.schedule import MOST_CANDIDATES, candidates
from redfuser.codegen.gpu.why import why
from redfuser.expr import Op, walk
from redfuser.extents import Dim, is_symbolic, size_of
from redfuser.tile import Schedule, build
from redfuser.tile.concrete import with_derived
from redfuser.tile.strategies.multi_segment import BLOCKS, MERGE_ROWS
from tests.codegen.gpu.programs import Attention, gpu, softmax
from tests.selections import routing, selection


def first(cascade: Cascade) -> Schedule:
    return candidates(cascade, derive(cascade), gpu("h800"))[0]


@pytest.mark.parametrize(
    ("cascade", "rows", "threads"),
    [
        (routing(2048, 64, 6), 8, 128),
        (routing(2048, 128, 8), 8, 128),
        (routing(2048, 160, 6), 2, 32),
        (routing(2048, 256, 8), 2, 32),
        (softmax(2048, 256, "float32"), 8, 128),
    ],
    ids=str,
)
def test_rows_of_a_selection_lie_within_a_warp(cascade: Cascade, rows: int, threads: int) -> None:
    schedule = first(cascade)
    assert schedule.strategy == "resident"
    assert (dict(schedule.tiles)["i"], dict(schedule.options)["threads"]) == (rows, threads)


@pytest.mark.parametrize("places", [2, 50, 200])
def test_lists_of_segments_fit_one_block(places: int) -> None:
    schedule = first(selection(1, 128 * 1024, places, "float32"))
    assert schedule.strategy == "multi-segment"
    assert schedule.segments > 1 and schedule.segments * places <= MOST_CANDIDATES


@pytest.mark.parametrize(
    ("rows", "length", "first_choice"),
    [(1, 1_000_000, "multi-segment"), (3, 65_536, "multi-segment"), (1, 32_768, "resident"), (512, 65_536, "single")],
)
def test_few_rows_that_no_block_holds_are_shared_out_and_written_in_parts(
    rows: int, length: int, first_choice: str
) -> None:
    cascade = softmax(rows, length, "float32")
    found = [schedule.strategy for schedule in candidates(cascade, derive(cascade), gpu("h800"))]
    assert found[0].startswith(first_choice)
    assert "single-segment" in found, "where the kernels don't fit"


@pytest.mark.parametrize(
    ("keys", "target", "segments"),
    [
        (4096, "a10", 8),  # twelve would give each of 72 multiprocessors two blocks, and be ragged
        (4096, "h800", 16),
        (4104, "a10", 12),
        (4097, "a10", 12),  # 17 × 241: as ragged as it is
    ],
)
def test_segments_have_equal_lengths_where_they_can(keys: int, target: str, segments: int) -> None:
    cascade = Attention("float32", heads=12, q_len=1, kv_len=keys, dim=64).cascade()
    [schedule, *_] = candidates(cascade, derive(cascade), gpu(target))
    assert (schedule.strategy, schedule.segments) == ("multi-segment", segments)


@pytest.mark.parametrize("target", ["a10", "a100-80g", "h800"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_some_schedule_of_latent_attention_fits_shared_memory(dtype: str, target: str) -> None:
    cascade = Attention(dtype, heads=128, groups=128, q_len=1, kv_len=1024, dim=576, v_dim=512).cascade()
    found = candidates(cascade, derivation := derive(cascade), gpu(target))
    problems = []
    for schedule in found:
        scripts = emit(build(cascade, derivation, schedule))
        problems.append([foreseen_problem(script, gpu(target)) for script in scripts])
    fitting = [schedule for schedule, listed in zip(found, problems, strict=True) if not any(listed)]
    assert fitting, problems
    for schedule in fitting:
        merging = dict(schedule.options).get(MERGE_ROWS)
        assert (merging is not None) == (schedule.strategy == "multi-segment")


ROWS, LENGTH = size_of(Dim("rows", 1, 65536)), size_of(Dim("length", 1, 65536))


@pytest.mark.parametrize("target", ["h800", "a10"])
@pytest.mark.parametrize(
    ("cascade", "strategy"),
    [
        (softmax(ROWS, 300, "float16"), "resident"),
        (softmax(ROWS, LENGTH, "float16"), "single-segment"),
        (Attention(q_len=LENGTH, kv_len=LENGTH, mask="causal").cascade(), "single-segment"),
        (softmax(2, LENGTH, "float16"), "multi-segment"),
        (Attention(q_len=1, kv_len=LENGTH).cascade(), "multi-segment"),
        (Attention(q_len=1, kv_len=LENGTH, batch=size_of(Dim("few", 1, 8))).cascade(), "multi-segment"),
        (Attention(q_len=1, kv_len=LENGTH, batch=ROWS).cascade(), "multi-segment"),
        (selection(1, LENGTH, 50, "float32"), "multi-segment"),
    ],
    ids=["rows", "both", "causal", "few-rows", "decode", "decode-of-few", "decode-of-many", "selection"],
)
def test_open_sizes_are_held_in_tiles_and_shared_out_where_rows_are_few(
    cascade: Cascade, strategy: str, target: str
) -> None:
    found = candidates(cascade, derive(cascade), gpu(target))
    assert found[0].strategy == strategy and (found[0].segments > 1) == (strategy == "multi-segment")
    options = [dict(schedule.options) for schedule in found]
    skips = any("skip-hidden" in option for option in options)
    assert skips == any(isinstance(node, Op) and node.name == "le" for node in walk(cascade.reductions[0].map))
    if is_symbolic(cascade.axis.extent):
        assert all(schedule.strategy != "resident" for schedule in found)
        assert target == "h800" or max(option["stages"] for option in options) <= 1


DECODER = Attention(
    heads=12, q_len=ROWS, kv_len=LENGTH + ROWS, batch=size_of(Dim("batch", 1, 64)), mask="bool"
).cascade()


@pytest.mark.parametrize(("target", "blocks", "segments"), [("h800", 264, 22), ("a10", 144, 12)])
def test_a_decoder_decides_on_the_call(target: str, blocks: int, segments: int) -> None:
    """One word of one sequence leaves most multiprocessors to the segments of its past, a long prompt none."""
    found = candidates(DECODER, derivation := derive(DECODER), gpu(target))
    [schedule, *_] = found
    assert (dict(schedule.options)[BLOCKS], schedule.segments) == (blocks, segments)
    assert found[-1].strategy == "single-segment", "where the kernels don't fit"
    program = build(DECODER, derivation, schedule)
    for (batch, rows), wanted in {(1, 1): segments, (2, 60): segments // 2, (64, 4096): 1}.items():
        sizes = {"batch": batch, "rows": rows, "length": 9}
        assert with_derived(sizes, program.derived) == {**sizes, "segments": wanted}
    assert why(DECODER, schedule, gpu(target)).split("; chosen")[0].endswith(f"in up to {segments} segments")


def test_looking_for_what_a_mask_hides_must_be_worth_while_whatever_the_sizes() -> None:
    """A decoder decides on the call, lest it look at its whole past for one word; tables are for known sizes only."""
    grown = Attention(q_len=LENGTH, kv_len=LENGTH, mask="causal")
    for attention, skips in (
        (grown, True),
        (replace(grown, mask="window"), True),
        (replace(grown, mask="bool"), False),
        (replace(grown, kv_len=LENGTH + ROWS), True),
    ):
        cascade = attention.cascade()
        looks: dict[str, list[bool]] = {}
        for schedule in candidates(cascade, derive(cascade), gpu("h800")):
            looks.setdefault(schedule.strategy, []).append("skip-hidden" in dict(schedule.options))
        for found in looks.values():
            assert any(found) == skips and found == sorted(found, reverse=True) and not all(found)


def test_rows_that_are_few_only_on_a_short_axis_are_not_cut() -> None:
    encoder = Attention(q_len=LENGTH, kv_len=LENGTH, batch=size_of(Dim("batch", 1, 64))).cascade()
    assert {s.strategy for s in candidates(encoder, derive(encoder), gpu("h800"))} == {"single-segment"}


def test_open_sizes_are_told_with_the_choice() -> None:
    cascade = Attention(q_len=ROWS, kv_len=LENGTH).cascade()
    [schedule, *_] = candidates(cascade, derive(cascade), gpu("h800"))
    assert why(cascade, schedule, gpu("h800")).endswith("; chosen for length = 65536, rows = 128")
