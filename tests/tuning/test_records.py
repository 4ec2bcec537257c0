"""Records, locks and the cache: what is read back, what is refused, what damage does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from redfuser.errors import UsageError
from redfuser.targets import CpuTarget
from redfuser.tile.ir import Schedule
from redfuser.tuning.cache import Cache, cache_folder
from redfuser.tuning.record import MEASURED, Record, ScheduleRecord, SpaceRecord, TuningLock, read_lock

CPU = CpuTarget("test", "", "x86-64-v4", 512, 2, 32, 1024, 3.0, 40.0)
SCHEDULE = Schedule("multi-segment", (("i", 16), ("l", 64)), 4, "i", (("vectors", 2),))


def record(cascade: str = "ab") -> Record:
    """A measured one."""
    space = SpaceRecord(9, 4, {"over the second-level cache": 5})
    return Record(cascade, ScheduleRecord.of(SCHEDULE), "measured", True, space, "cd", 12.5, 0.02, 4, 1.5)


def test_a_lock_comes_back_as_it_was(tmp_path: Path) -> None:
    lock = TuningLock.make(CPU, {"b": record("b"), "a": record("a")})
    path = tmp_path / "tuning.lock"
    path.write_text(lock.to_json())
    assert read_lock(path) == read_lock(tmp_path) == lock
    assert lock.to_json().index('"a"') < lock.to_json().index('"b"')
    found = lock.find("b")
    assert found is not None and found.schedule.schedule() == SCHEDULE and lock.find("c") is None


def test_of_equal_cascades_a_lock_gives_that_of_the_name() -> None:
    first, second = record("a"), replace(record("a"), kernel="ef")
    lock = TuningLock.make(CPU, {"product_0": first, "product_1": second, "product_2": record("b")})
    found = [lock.find("a", name) for name in ("product_1", "product_0", "product_2", "")]
    assert found == [second, first, first, first] and lock.find("c", "product_0") is None


def test_a_lock_tells_decisions_and_no_times() -> None:
    first, second = (TuningLock.make(CPU, {"a": replace(record(), time_us=us, noise=us, gain=us)}) for us in (1.2, 1.3))
    assert first == second and first.to_json() == second.to_json()
    assert all(name not in first.to_json() for name in MEASURED)
    assert first != TuningLock.make(CPU, {"a": replace(record(), fused=False)})


@pytest.mark.parametrize(("gain", "fused"), [(0.0, True), (0.5, False), (0.94, False), (0.97, True), (1.5, True)])
def test_what_is_clearly_slower_fused_stays_unfused(gain: float, fused: bool) -> None:
    assert record().against_unfused(gain).fused is fused


def test_a_lock_serves_its_own_target_and_tools_only() -> None:
    lock = TuningLock.make(CPU, {})
    assert not lock.obstacle(CPU)
    assert "another target" in lock.obstacle(replace(CPU, cores=4))
    assert "apache-tvm 0.1" in replace(lock, tools={**lock.tools, "apache-tvm": "0.1"}).obstacle(CPU)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"schema": "redfuser.tuning/3"}', '{"schema": "redfuser.tuning/4"}', "\xff"]
)
def test_what_is_no_lock_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match="isn't a tuning lock"):
        read_lock(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_lock(tmp_path / "absent")


def test_the_cache_follows_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/redfuser")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == Path.home() / ".cache" / "redfuser"


def test_the_cache_keeps_lists_and_clears(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.read(Record, "records", "k") is None and not cache.entries()
    cache.write("records", "k", record())
    assert cache.read(Record, "records", "k") == record()
    assert [entry.path.name for entry in cache.entries()] == ["k.json"] and cache.clear() == 1 and not cache.entries()


@pytest.mark.parametrize("damage", [b"", b"{", b'{"cascade": 1}', b"\xff\xfe"])
def test_a_damaged_entry_is_skipped_with_a_warning(damage: bytes, tmp_path: Path) -> None:
    warnings: list[str] = []
    cache = Cache(tmp_path, warnings.append)
    cache.write("records", "k", record())
    cache.place("records", "k").write_bytes(damage)
    assert cache.read(Record, "records", "k") is None
    assert len(warnings) == 1 and "k.json" in warnings[0]


def test_a_journal_survives_a_line_cut_short(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    for name in ("a", "b", "c"):
        cache.append("trials", "k", record(name))
    path = cache.place("trials", "k", ".jsonl")
    path.write_bytes(path.read_bytes()[:-20])
    assert [item.cascade for item in cache.lines(Record, "trials", "k")] == ["a", "b"]
    cache.drop("trials", "k")
    assert not list(cache.lines(Record, "trials", "k"))


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    warnings: list[str] = []
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file", warnings.append)
    cache.write("records", "k", record())
    cache.append("trials", "k", record())
    assert len(warnings) == 2 and not cache.entries()
