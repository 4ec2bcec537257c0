"""The space of schedules for GPUs: restrictions by name and number, candidates that fit."""

from __future__ import annotations

import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu.emission.emit import emit
from redfuser.codegen.gpu.emission.products import BY_COLUMNS
from redfuser.codegen.gpu.gate import foreseen_problem
from redfuser.codegen.gpu.schedule import candidates
from redfuser.tuning.spaces import space_of
from redfuser.tuning.spaces.space import Survey
from tests.codegen.gpu.programs import gpu, quantised_product, softmax
from tests.tile.build import Attention

ATTENTION = Attention(heads=12, q_len=512, kv_len=512, dim=64, v_dim=64, mask="none").cascade()
DECODE = Attention(heads=12, q_len=1, kv_len=4096, dim=64, v_dim=64, mask="none").cascade()


def survey(cascade: Cascade, target: str) -> Survey:
    """The survey of a cascade's space; the counts add up and every script fits the target."""
    found = space_of(cascade, derive(cascade), gpu(target)).survey()
    assert len(found.candidates) + sum(found.excluded.values()) == found.total
    for candidate in found.candidates:
        assert not any(foreseen_problem(script, gpu(target)) for script in emit(candidate.program))
    return found


@pytest.mark.parametrize("target", ["h800", "a10"])
def test_the_untuned_choice_comes_first_and_restrictions_are_counted(target: str) -> None:
    found = survey(ATTENTION, target)
    assert found.candidates[0].schedule == candidates(ATTENTION, derive(ATTENTION), gpu(target))[0]
    assert found.excluded["over shared memory"] > 0 and found.excluded["over the registers of a thread"] > 0
    assert f"{found.excluded['over shared memory']} over shared memory" in str(found)
    schedules = [candidate.schedule for candidate in found.candidates]
    assert {dict(s.options).get(BY_COLUMNS, 0) for s in schedules} == {0, 1}
    assert {dict(s.options)["stages"] for s in schedules} == {1, 2, 3}


@pytest.mark.parametrize("target", ["h800", "a10"])
def test_few_rows_leave_as_many_warps_as_the_device_needs_at_least(target: str) -> None:
    found = survey(Attention(heads=2, q_len=32, kv_len=32, dim=16, v_dim=16, mask="none").cascade(), target)
    fewest = 128 if gpu(target).has("wgmma") else 32
    assert {dict(c.schedule.options)["threads"] for c in found.candidates} >= {fewest}


def test_less_shared_memory_leaves_fewer_candidates() -> None:
    small, large = (survey(ATTENTION, target).excluded["over shared memory"] for target in ("a10", "a100-80g"))
    assert small > large


def test_decode_is_cut_in_as_many_segments_as_multiprocessors_can_use() -> None:
    found = survey(DECODE, "h800")
    assert {c.schedule.segments for c in found.candidates} >= {1, 8, 16}
    assert all(12 * c.schedule.segments <= 2 * 132 for c in found.candidates)


def test_rows_have_no_pipeline_and_no_idle_threads() -> None:
    found = survey(softmax(256, 1024, "float16"), "h800")
    assert {dict(c.schedule.options)["stages"] for c in found.candidates} == {0}
    assert found.excluded["leave threads without elements"] > 0


def test_what_the_device_cannot_compute_is_excluded_by_name() -> None:
    found = survey(quantised_product(256, 256, 256, "float8_e4m3fn", 448.0), "a10")
    assert not found.candidates and found.excluded["impossible (no-float8)"] > 0
