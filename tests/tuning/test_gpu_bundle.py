"""Tuning for a GPU elsewhere: what goes there, what is made of what comes back. The compiler is made up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from models.reductions import softmax
from redfuser.codegen.backend import Kernel
from redfuser.codegen.gpu.backend import GpuBackend
from redfuser.codegen.gpu.value import GpuKernel, GpuProgram, Resources
from redfuser.driver import tune_model
from redfuser.errors import OutputError, UsageError
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.targets import load_target
from redfuser.tile.ir import TileProgram
from redfuser.tuning.elsewhere import exporting, importing


def generate(self: GpuBackend, program: TileProgram, seed: int) -> Kernel:
    """A kernel that never ran through a compiler."""
    used = Resources(32, 0, 0, 0, 1024, dict(program.schedule.options)["threads"])
    once = (1, 1, 1)
    kernel = GpuKernel(program.name, "", "", b"code", "entry", (), once, (used.threads, 1, 1), once, used, "sm_90a")
    kernels = (kernel,) * len(program.phases)
    return Kernel(
        program, GpuProgram(program.name, program.inputs, program.outputs, program.workspaces, kernels), {}, {}
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "softmax.onnx"
    path.write_bytes(softmax(64, 512).SerializeToString())
    return path


@pytest.fixture(scope="module")
def options() -> CompileOptions:
    return CompileOptions(load_target("h800"), tune_seconds=600, trials=3)


@pytest.fixture(scope="module", autouse=True)
def compiler() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GpuBackend, "generate", generate)
        patch.setattr(GpuBackend, "require_tools", lambda self: None)
        yield


@pytest.fixture(scope="module")
def bundle(model: Path, options: CompileOptions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that went out; nobody has run it."""
    folder = tmp_path_factory.mktemp("bundle") / "bundle"
    with exporting(options, Silent(), folder) as choose:
        tune_model(model, options, Silent(), choose)
    return folder


def answer(bundle: Path, times: list[float], wrong: tuple[int, ...] = (), digest: str = "") -> None:
    """Write what the script of the bundle would."""
    described = json.loads((bundle / "bundle.json").read_text())
    programs: dict[str, Any] = {}
    for number, program in enumerate(described["programs"]):
        problems = ["too large an error"] if number in wrong else []
        timed = {"redfuser": [times[number]] * 5, "torch": [0.001] * 5}
        programs[program["name"]] = [{"problems": problems, "times_ms": timed}, {"problems": [], "times_ms": {}}]
    result = {"bundle": digest or described["digest"], "programs": programs, "device": "made up"}
    (bundle / "results.json").write_text(json.dumps(result))


def test_candidates_go_out_with_the_script_that_checks_and_times_them(bundle: Path) -> None:
    described = json.loads((bundle / "bundle.json").read_text())
    tuning = json.loads((bundle / "tuning.json").read_text())
    assert (bundle / "run.py").is_file() and len(described["programs"]) == 3
    (task,) = tuning["tasks"]
    assert [c["program"] for c in task["candidates"]] == [program["name"] for program in described["programs"]]
    assert task["space"]["excluded"]["over the registers of a thread"] > 0


def test_the_fastest_right_one_comes_back(bundle: Path, model: Path, options: CompileOptions) -> None:
    answer(bundle, [0.3, 0.1, 0.2], wrong=(1,))
    with importing(options, Silent(), bundle) as choose:
        (record,) = tune_model(model, options, Silent(), choose)[0].kernels.values()
    candidates = json.loads((bundle / "tuning.json").read_text())["tasks"][0]["candidates"]
    assert record.how == "measured" and record.time_us == 200 and record.trials == 2
    assert record.schedule.options == candidates[2]["schedule"]["options"]
    assert record.schedule.tiles == candidates[2]["schedule"]["tiles"]


def test_without_a_right_one_the_usual_choice_stays(bundle: Path, model: Path, options: CompileOptions) -> None:
    answer(bundle, [0.3, 0.1, 0.2], wrong=(0, 1, 2))
    with importing(options, Silent(), bundle) as choose:
        (record,) = tune_model(model, options, Silent(), choose)[0].kernels.values()
    assert record.how == "modelled"


def test_foreign_or_absent_results_are_refused(bundle: Path, options: CompileOptions, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read the bundle"), importing(options, Silent(), tmp_path):
        pass
    answer(bundle, [0.3, 0.1, 0.2])
    other = CompileOptions(load_target("h200"))
    with pytest.raises(UsageError, match="another target"), importing(other, Silent(), bundle):
        pass
    answer(bundle, [0.3, 0.1, 0.2], digest="0")
    with pytest.raises(UsageError, match="another bundle"), importing(options, Silent(), bundle):
        pass
    with pytest.raises(OutputError, match="isn't empty"), exporting(options, Silent(), bundle):
        pass
