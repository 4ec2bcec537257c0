"""The space of schedules: every restriction is counted, every candidate builds."""

from __future__ import annotations

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.expr import axis
from redfuser.targets import CpuTarget
from redfuser.tile import default_schedule, verify
from redfuser.tile.ir import Schedule, TileProgram
from redfuser.tuning.spaces import space_of
from redfuser.tuning.spaces.cpu import on_chip_bytes
from redfuser.tuning.spaces.space import Knob, Limit, Point, Rule, Space, Survey
from tests.tile.build import Attention, Rows

CPU = CpuTarget("test", "", "x86-64-v4", 512, 2, 32, 1024, 3.0, 40.0)


def survey(cascade: Cascade) -> Survey:
    """The survey of a cascade's space on the test's CPU; the counts add up and every program verifies."""
    found = space_of(cascade, derive(cascade), CPU).survey()
    assert len(found.candidates) + sum(found.excluded.values()) == found.total
    assert len({candidate.schedule for candidate in found.candidates}) == len(found.candidates)
    for candidate in found.candidates:
        verify(candidate.program)
    return found


def toy(*rules: Rule, limits: tuple[Limit, ...] = ()) -> Space:
    """Strategy and segments only."""

    def schedule(point: Point) -> Schedule:
        return Schedule(str(point["strategy"]), segments=int(point["segments"]))

    def program(schedule: Schedule) -> TileProgram:
        return TileProgram("toy", (), (), (), (), schedule)

    knobs = (Knob("strategy", ("single-segment", "multi-segment")), Knob("segments", (1, 2, 4)))
    return Space(knobs, schedule, program, rules, limits)


def test_each_restriction_is_counted_once() -> None:
    misplaced = Rule("are cut without need", lambda s: (s.segments > 1) != (s.strategy == "multi-segment"))
    many = Limit("over two segments", lambda program: program.schedule.segments > 2)
    found = toy(misplaced, limits=(many,)).survey()
    assert [candidate.schedule.segments for candidate in found.candidates] == [1, 2]
    assert found.excluded == {"are cut without need": 3, "over two segments": 1}
    assert str(found) == "2 of 6 candidates: 3 are cut without need, 1 over two segments"


def test_points_that_mean_the_same_are_one_candidate() -> None:
    space = Space(
        (Knob("a", (1, 2)),), lambda point: Schedule("resident"), lambda s: TileProgram("x", (), (), (), (), s)
    )
    assert str(space.survey()) == "1 of 2 candidates: 1 the same as another"


def test_attention_has_every_strategy_tile_and_width() -> None:
    found = survey(Attention(heads=12, q_len=512, kv_len=512, dim=64, v_dim=64, mask="none").cascade())
    schedules = [candidate.schedule for candidate in found.candidates]
    assert {s.strategy for s in schedules} == {"single-segment", "multi-segment", "resident"}
    assert {dict(s.tiles)["i"] for s in schedules} >= {16, 32, 64, 128}
    assert {s.segments for s in schedules} == {1, 2, 4, 8}
    assert {dict(s.options).get("vectors", 4) for s in schedules} == {2, 4}
    assert "cut an axis in segments without the strategy for it" in found.excluded


def test_the_untuned_choice_is_the_first_candidate() -> None:
    cascade = Attention(heads=12, q_len=512, kv_len=512, dim=64, v_dim=64, mask="none").cascade()
    default = default_schedule(cascade, derive(cascade), CPU).schedule
    first = survey(cascade).candidates[0].schedule
    assert (first.strategy, dict(first.tiles), first.lanes) == (default.strategy, dict(default.tiles), default.lanes)


def test_what_has_no_incremental_form_is_only_resident() -> None:
    found = survey(Rows(axis("i", 64), axis("l", 512)).quantise())
    assert {candidate.schedule.strategy for candidate in found.candidates} == {"resident"}


def test_what_exceeds_the_cache_is_excluded_by_name() -> None:
    found = survey(Rows(axis("i", 512), axis("l", 65536)).softmax())
    assert found.excluded["over the second-level cache"] > 0
    assert all(on_chip_bytes(candidate.program) <= 2 * 1024 * 1024 for candidate in found.candidates)


def test_outputs_along_the_axis_are_never_cut_in_segments() -> None:
    found = survey(Rows(axis("i", 1), axis("l", 1 << 16)).softmax())
    assert {candidate.schedule.segments for candidate in found.candidates} == {1}
