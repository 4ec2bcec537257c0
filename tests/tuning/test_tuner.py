"""Tuning a real model: the lock it gives, the compile that obeys it, what a cache and an interruption do."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from models.reductions import softmax, variance
from models.tiny_bert import BertShape, tiny_bert
from redfuser.driver import compile_model, tune_model
from redfuser.errors import LockMissError
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.report.describe import describe_report
from redfuser.targets import load_target
from redfuser.tuning import tuner
from redfuser.tuning.choose import untuned
from redfuser.tuning.record import Record, TuningLock
from redfuser.tuning.task import Task


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder of these tests' own."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        # On a busy machine a small graph may well look faster unfused; the comparison has tests of its own.
        patch.setattr(tuner, "gain", lambda *_: 1.5)
        yield folder / "redfuser"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "variance.onnx"
    path.write_bytes(variance(32, 256).SerializeToString())
    return path


@pytest.fixture(scope="module")
def options() -> CompileOptions:
    return CompileOptions(load_target("cpu"), tune_seconds=600, trials=6)


@pytest.fixture(scope="module")
def lock(own_cache: Path, model: Path, options: CompileOptions) -> TuningLock:
    """What tuning finds."""
    return tune_model(model, options, Silent())[0]


def module_digest(model: Path, options: CompileOptions, folder: Path) -> str:
    """SHA-256 of the compiled module."""
    path = folder / "module.so"
    compile_model(model, options, Silent()).module_writer(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_locked_compile_gives_the_same_bytes_and_the_same_lock(
    model: Path, options: CompileOptions, lock: TuningLock, tmp_path: Path
) -> None:
    (record,) = lock.kernels.values()
    assert record.how == "measured" and record.trials == 6 and record.space is not None and record.time_us > 0
    locked = replace(options, tune_seconds=0, lock=lock, locked=True)
    compiled = compile_model(model, locked, Silent())
    assert compiled.tuning_lock == lock.to_json()
    (entry,) = compiled.report.cascades
    assert entry.time is not None and entry.time.how == "modelled"
    assert entry.choice is not None and entry.choice.timed == 0 and entry.choice.excluded == record.space.excluded
    assert "the fastest, says the lock" in str(describe_report(compiled.report).sections[0])
    assert module_digest(model, locked, tmp_path) == module_digest(model, locked, tmp_path)


def test_the_report_of_a_tuning_tells_what_was_measured(model: Path, options: CompileOptions, lock: TuningLock) -> None:
    _, report = tune_model(model, options, Silent())
    (entry,) = report.cascades
    assert entry.time is not None and entry.time.how == "measured"
    assert "fastest of 6 timed" in str(describe_report(report).sections[0])


def test_a_lock_without_the_cascade_is_a_miss(lock: TuningLock, options: CompileOptions, tmp_path: Path) -> None:
    other = tmp_path / "softmax.onnx"
    other.write_bytes(softmax(32, 256).SerializeToString())
    locked = replace(options, lock=lock, locked=True)
    with pytest.raises(LockMissError, match="no schedule for softmax_0") as caught:
        compile_model(other, locked, Silent())
    assert caught.value.exit_code == 7
    assert compile_model(other, replace(locked, locked=False, tune_seconds=0), Silent()).report.fused == 1


def test_another_kernel_than_the_locked_one_is_a_miss(model: Path, lock: TuningLock, options: CompileOptions) -> None:
    changed = {name: replace(record, kernel="0" * 64) for name, record in lock.kernels.items()}
    with pytest.raises(LockMissError, match="generator has changed"):
        compile_model(model, replace(options, lock=replace(lock, kernels=changed), locked=True), Silent())


@pytest.mark.parametrize("change", [{"cores": 64}, {"l2_kb": 1}])
def test_a_lock_for_another_target_is_a_miss(
    change: dict[str, int], model: Path, lock: TuningLock, options: CompileOptions
) -> None:
    target = replace(options.target, **change)
    with pytest.raises(LockMissError, match="another target"):
        compile_model(model, replace(options, target=target, lock=lock, locked=True), Silent())


def test_no_lock_at_all_is_a_miss(model: Path, options: CompileOptions) -> None:
    with pytest.raises(LockMissError, match="no lock was given"):
        compile_model(model, replace(options, locked=True), Silent())


def test_the_second_tuning_comes_from_the_cache(
    model: Path, options: CompileOptions, lock: TuningLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def search(*_: object, **__: object) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(tuner, "Search", search)
    assert tune_model(model, options, Silent())[0] == lock


def test_another_seed_is_another_search(
    model: Path, options: CompileOptions, lock: TuningLock, own_cache: Path
) -> None:
    before = len(list((own_cache / "records").iterdir()))
    tune_model(model, replace(options, seed=1, trials=2), Silent())
    assert len(list((own_cache / "records").iterdir())) == before + 1


class Warnings(Silent):
    """Keeps what it is warned of."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def warn(self, text: str) -> None:
        self.seen.append(text)


def test_a_target_that_cannot_run_here_is_left_untuned(
    model: Path, options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuner, "runs_here", lambda target: False)
    progress = Warnings()
    (record,) = tune_model(model, options, progress)[0].kernels.values()
    assert record.how == "modelled" and "can't run code for cpu" in progress.seen[0]


def test_what_is_slower_fused_goes_back_to_unfused_and_the_lock_says_so(
    model: Path, options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuner, "gain", lambda *_: 0.5)
    lock, report = tune_model(model, replace(options, seed=2, trials=2), Silent())
    (record,) = lock.kernels.values()
    assert not record.fused and not record.kernel
    locked = compile_model(model, replace(options, tune_seconds=0, lock=lock, locked=True), Silent())
    assert locked.tuning_lock == lock.to_json() and not locked.kernels
    for (entry,), witness in (
        (report.cascades, "measured 2.0 times slower fused"),
        (locked.report.cascades, "measured slower fused when the lock was made"),
    ):
        assert (entry.verdict, entry.strategy, entry.time) == ("unfused", "unfused", None)
        assert entry.reason is not None and entry.reason.code == "slower-fused"
        assert witness in entry.reason.witness and entry.choice is not None


def test_cascades_of_one_model_are_timed_by_their_own_kernels(model: Path, tmp_path: Path) -> None:
    other = tmp_path / "softmax.onnx"
    other.write_bytes(softmax(16, 128).SerializeToString())
    options = CompileOptions(load_target("cpu"), tune_seconds=600, trials=2, seed=4)
    with tuner.tuning(options, Silent()) as shared:
        for path in (model, other):
            lock, _ = tune_model(path, options, Silent(), lambda task: shared.tune(task) or untuned(task, options))
            (record,) = lock.kernels.values()
            assert record.how == "measured" and record.trials == 2
        assert shared.builder is not None and shared.builder.built >= 4
        assert len(list(shared.scratch.glob("*.so"))) == shared.builder.built


def test_equal_cascades_are_tuned_once_however_many_layers_there_are(tmp_path: Path) -> None:
    options = CompileOptions(load_target("cpu"))
    asked: dict[int, list[str]] = {}
    for layers in (1, 4):
        path = tmp_path / f"{layers}.onnx"
        path.write_bytes(tiny_bert(replace(BertShape(), layers=layers)).SerializeToString())
        names = asked[layers] = []

        def choose(task: Task, names: list[str] = names) -> Record:
            names.append(task.name)
            assert task.left == 3 - len(names)
            return untuned(task, options)

        lock, report = tune_model(path, options, Silent(), choose)
        assert len(report.cascades) == 1 + 3 * layers and set(lock.kernels) == set(names)
    assert asked[1] == asked[4] and len(asked[1]) == len(set(asked[1])) == 2
