"""Measuring elsewhere: bundles that go and come back, a tracker whose servers die."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.reductions import softmax, variance
from redfuser.driver import compile_model, tune_model
from redfuser.errors import MissingToolError, OutputError, UsageError
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.targets import load_target
from redfuser.tuning.elsewhere import exporting, importing, tracked
from redfuser.tuning.timing.rpc import RpcRunner, parse_tracker


@pytest.fixture(scope="module")
def options() -> CompileOptions:
    return CompileOptions(load_target("cpu"), trials=3)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "variance.onnx"
    path.write_bytes(variance(16, 256).SerializeToString())
    return path


@pytest.fixture(scope="module")
def bundle(model: Path, options: CompileOptions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One that was measured."""
    folder = tmp_path_factory.mktemp("bundle") / "bundle"
    with exporting(options, Silent(), folder) as choose:
        tune_model(model, options, Silent(), choose)
    subprocess.run([sys.executable, str(folder / "measure.py"), "1"], check=True, cwd="/", capture_output=True)
    yield folder


def test_a_bundle_comes_back_as_a_lock(bundle: Path, model: Path, options: CompileOptions) -> None:
    with importing(options, Silent(), bundle) as choose:
        lock, report = tune_model(model, options, Silent(), choose)
    (record,) = lock.kernels.values()
    assert record.how == "measured" and record.trials == 3 and record.space is not None
    assert report.cascades[0].time is not None and report.cascades[0].time.how == "measured"
    locked = CompileOptions(options.target, lock=lock, locked=True)
    assert compile_model(model, locked, Silent()).tuning_lock == lock.to_json()


def test_the_script_of_a_bundle_needs_no_redfuser(bundle: Path) -> None:
    assert "redfuser" not in {
        line.split()[1].split(".")[0]
        for line in (bundle / "measure.py").read_text().splitlines()
        if line.strip().startswith(("import ", "from "))
    }


def test_a_cascade_that_the_bundle_lacks_keeps_its_usual_schedule(
    bundle: Path, options: CompileOptions, tmp_path: Path
) -> None:
    other = tmp_path / "softmax.onnx"
    other.write_bytes(softmax(16, 256).SerializeToString())
    with importing(options, Silent(), bundle) as choose:
        (record,) = tune_model(other, options, Silent(), choose)[0].kernels.values()
    assert record.how == "modelled"


def test_foreign_or_absent_results_are_refused(bundle: Path, options: CompileOptions, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the bundle"), importing(options, Silent(), tmp_path):
        pass
    avx2 = CompileOptions(load_target("cpu-avx2"))
    with pytest.raises(UsageError, match="another target"), importing(avx2, Silent(), bundle):
        pass
    for name in ("bundle.json", "results.json"):
        (tmp_path / name).write_bytes((bundle / name).read_bytes())
    data = json.loads((tmp_path / "results.json").read_text())
    (tmp_path / "results.json").write_text(json.dumps({**data, "bundle": "0"}))
    with pytest.raises(UsageError, match="another bundle"), importing(options, Silent(), tmp_path):
        pass


def test_a_folder_in_use_is_left_alone(bundle: Path, options: CompileOptions) -> None:
    with pytest.raises(OutputError, match="isn't empty"), exporting(options, Silent(), bundle):
        pass


def test_a_tracker_that_does_not_answer_is_told_and_no_lock_is_made(
    model: Path, options: CompileOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object) -> None:
        raise MissingToolError("the tracker doesn't answer", "start it")

    monkeypatch.setattr(RpcRunner, "run", run)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with (
        tracked(options, Silent(), "localhost", 9190, "cpu") as choose,
        pytest.raises(MissingToolError, match="doesn't answer"),
    ):
        tune_model(model, options, Silent(), choose)


@pytest.mark.parametrize("text", ["", "host", ":9190", "host:", "host:0", "host:99999", "host:1x"])
def test_what_is_no_tracker_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="HOST:PORT"):
        parse_tracker(text)


def test_a_tracker_is_host_and_port() -> None:
    assert parse_tracker("a.example:9190") == ("a.example", 9190)
    assert parse_tracker("::1:9190") == ("::1", 9190)
