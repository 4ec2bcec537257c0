"""A whole model for a GPU on a machine without one: compiled, loaded and run on a driver that records."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from redfuser.codegen.gpu.tools.symbols import undefined_symbols
from redfuser.codegen.gpu.tools.toolchain import Toolchain
from tests.codegen.gpu.whole.recording import ROOT, Recorder
from tests.emulator.artifact import emulating, sources_of
from tests.emulator.library import needs_compiler

MODEL = ROOT / "models" / "tiny_bert.onnx"

AGAINST_MODEL = ("--model", MODEL, "--device", "cuda")

#: Loads and runs an artifact as the README shows it: with apache-tvm alone.
ALONE = """
import sys, numpy, tvm
from tvm import relax
module = tvm.runtime.load_module(sys.argv[1])
machine = relax.VirtualMachine(module, tvm.cuda(0))
feed = tvm.runtime.tensor(numpy.ones((1, 32), "int64"), tvm.cuda(0))
print(machine["main"](feed, feed).shape, "redfuser" in sys.modules)
"""


@pytest.fixture(scope="module")
def artifact(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small BERT for an H800, its kernels not from any cache."""
    output = tmp_path_factory.mktemp("gpu") / "tiny"
    assert compile_model(output, XDG_CACHE_HOME=str(output.parent)) == 0
    return output


def compile_model(output: Path, *more: str, **environment: str) -> int:
    command = [sys.executable, "-m", "redfuser_cli.main", "compile", str(MODEL), "--target", "h800", "-q", "--strict"]
    command += ["-o", str(output), "--dump", str(output.with_suffix(".dump")), *more]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    return done.returncode


def test_every_kernel_is_launched_as_often_as_it_is_called(artifact: Path, recorder: Recorder) -> None:
    done = recorder.redfuser("run", artifact, "--device", "cuda")
    assert done.code == 0, done.output
    assert "last_hidden_state: float32[1, 32, 64]" in done.output
    assembly = next(artifact.with_suffix(".dump").glob("*module.txt")).read_text()
    calls = {
        line.split(":")[0].removeprefix("rf_"): int(line.split()[-2])
        for line in assembly.splitlines()
        if ", called " in line
    }
    assert calls["attention_0"] == 2 and calls["norm_0"] == 5
    assert sum(count for name, count in calls.items() if name.startswith("product_")) == 12
    assert not [name for name in calls if "matmul" in name], "every product is a tile program"
    entries = [event["kernel"].removesuffix("_kernel") for event in done.of("launch")]
    launched = [re.sub(r"^(product_\d+)_0$", r"\1", entry) for entry in entries]
    assert {name: launched.count(name) for name in calls} == calls
    assert all(event["machine"] == 190 for event in done.of("load"))


@pytest.mark.slow
def test_its_lock_gives_the_same_and_pins_lone_products_too(artifact: Path, tmp_path: Path) -> None:
    lock = json.loads((artifact / "tuning.lock").read_text())
    products = [name for name in lock["kernels"] if name.startswith("product_")]
    again = tmp_path / "again"
    given = ("--locked", "--tuning-lock")
    assert compile_model(again, *given, str(artifact), XDG_CACHE_HOME=str(artifact.parent)) == 0
    assert products and (again / "tuning.lock").read_bytes() == (artifact / "tuning.lock").read_bytes()
    assert (again / "module.so").read_bytes() == (artifact / "module.so").read_bytes()
    reports = [json.loads((folder / "report.json").read_text()) for folder in (artifact, again)]
    for entry in (entry for report in reports for key in ("cascades", "products") for entry in report[key]):
        del entry["choice"]
    assert reports[0] == reports[1]
    del lock["kernels"][products[-1]]
    (tmp_path / "less.lock").write_text(json.dumps(lock))
    missed = tmp_path / "missed"
    assert compile_model(missed, *given, str(tmp_path / "less.lock"), XDG_CACHE_HOME=str(artifact.parent)) == 7


@needs_compiler
def test_its_launches_compute_the_model(artifact: Path, recorder: Recorder, tmp_path: Path) -> None:
    """Every kernel, the remainder's too, by the emulator, in the module's order and on its memory."""
    done = emulating(sources_of(artifact), recorder, tmp_path / "emulation").redfuser(
        "verify", artifact, *AGAINST_MODEL
    )
    assert done.code == 0 and "PASSED" in done.output, done.output


@needs_compiler
@pytest.mark.slow
def test_a_wrong_kernel_shows_in_the_outputs(artifact: Path, recorder: Recorder, tmp_path: Path) -> None:
    right = sources_of(artifact)
    wrong = [source.replace("] + B[", "] - B[") for source in right]
    assert wrong != right
    done = emulating(wrong, recorder, tmp_path / "emulation").redfuser("verify", artifact, *AGAINST_MODEL)
    assert done.code == 6, done.output


def test_the_report_tells_how_products_are_computed(artifact: Path) -> None:
    products = json.loads((artifact / "report.json").read_text())["products"]
    assert [entry["id"] for entry in products] == [f"product_{number}" for number in range(len(products))]
    for entry in products:
        assert entry["strategy"] in ("single-segment", "multi-segment") and entry["schedule"]["threads"] >= 128
        assert any(name.startswith("registers") for name in entry["resources"])


def test_launches_keep_within_the_device(artifact: Path, recorder: Recorder) -> None:
    for event in recorder.redfuser("run", artifact).of("launch"):
        assert min(event["grid"]) >= 1 and event["grid"][0] < 2**31 and max(event["grid"][1:]) < 2**16
        assert 1 <= event["block"][0] * event["block"][1] * event["block"][2] <= 1024
        assert event["shared"] <= 227 * 1024
        assert all(argument.get("allocation", 0) >= 0 for argument in event["arguments"])


def test_the_artifact_runs_with_tvm_alone(artifact: Path, recorder: Recorder) -> None:
    done = recorder.run("-c", ALONE, str(artifact / "module.so"))
    assert done.code == 0 and "(1, 32, 64) False" in done.output, done.output


def test_the_artifact_holds_no_source_and_lacks_no_kernel(artifact: Path) -> None:
    module = artifact / "module.so"
    content = module.read_bytes()
    assert not [text for text in (b"__global__", b"blockIdx", b".target sm_") if text in content]
    assert not [name for name in undefined_symbols(module) if name.startswith("rf_")]


def test_sources_and_resources_of_each_kernel_can_be_read(artifact: Path) -> None:
    assert "__global__" in (artifact / "kernels" / "remainder" / "kernel.cu").read_text()
    folder = artifact / "kernels" / "attention_0"
    assert {path.name for path in folder.iterdir()} == {"tile.txt", "kernel.py", "kernel.cu", "resources.json"}
    resources = json.loads((folder / "resources.json").read_text())
    assert resources["registers"] > 0 and resources["spill_stores"] == 0
    assert "T.Kernel" in (folder / "kernel.py").read_text() and "__global__" in (folder / "kernel.cu").read_text()


def test_nothing_is_claimed_as_measured(artifact: Path) -> None:
    report = json.loads((artifact / "report.json").read_text())
    assert report["target"] == {
        "name": "h800", "kind": "gpu", "arch": "sm_90a", "features": report["target"]["features"], "cores": 132
    }  # fmt: skip
    times = [entry["time"] for entry in report["cascades"] if entry["time"] is not None]
    assert all(time["how"] == "modelled" for time in times)
    assert all(entry["error"] is None for entry in report["cascades"])
    assert all(entry["resources"]["registers"] > 0 for entry in report["cascades"])
    tools = json.loads((artifact / "manifest.json").read_text())["tools"]
    assert {"tilelang", "nvidia-cuda-nvcc"} <= set(tools) and "absent" not in tools["tilelang"]


def test_an_artifact_is_timed_on_the_device(artifact: Path, recorder: Recorder) -> None:
    done = recorder.redfuser("bench", artifact, "--device", "cuda", "--rounds", "1", "--format", "json", "-q")
    assert done.code == 0, done.output
    result = json.loads(done.output)
    assert result["machine"] == "Recorder 0 (9.0)" and result["threads"] == 0
    (case,) = result["cases"]
    assert case["name"] == MODEL.name and case["sides"][0]["median_us"] > 0


@pytest.mark.slow
def test_a_case_is_timed_fused_and_unfused_on_the_device(recorder: Recorder, toolchain: Toolchain) -> None:
    options = ("--case", "variance", "--target", "h800", "--rounds", "1", "--format", "json", "-q")
    done = recorder.redfuser("bench", "moments", *options)
    assert done.code == 0, done.output
    (case,) = json.loads(done.output)["cases"]
    assert [side["side"] for side in case["sides"]] == ["redfuser", "unfused"]
    assert case["absent"].keys() == {"torch"}, "PyTorch here has no CUDA, or doesn't believe in the recorder"


@pytest.mark.parametrize("command", [["run"], ["verify", "--model", str(MODEL)], ["bench"]])
def test_a_machine_without_gpu_is_told_so(artifact: Path, command: list[str]) -> None:
    arguments = [*command, str(artifact), "--device", "cuda"]
    done = subprocess.run(
        [sys.executable, "-m", "redfuser_cli.main", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        pytest.skip("this machine has a GPU")
    assert done.returncode == 8 and "no usable NVIDIA GPU" in done.stderr


def test_another_architecture_is_refused(artifact: Path, recorder: Recorder) -> None:
    done = recorder.redfuser("run", artifact, capability=80)
    assert done.code == 8 and "sm_90a" in done.output and "8.0" in done.output
    done = recorder.run("-c", ALONE, str(artifact / "module.so"), capability=80)
    assert done.code and "compiled for sm_90a; device 0 (Recorder 0) has compute capability 8.0" in done.output


def test_an_old_driver_is_refused(artifact: Path, recorder: Recorder) -> None:
    done = recorder.run("-c", ALONE, str(artifact / "module.so"), version=12040)
    assert done.code and "supports CUDA 12.4, but 13.0 is needed" in done.output


@pytest.mark.slow
def test_rebuilds_are_byte_identical_elsewhere(artifact: Path, tmp_path: Path) -> None:
    again = tmp_path / "deeper" / "tiny"
    again.parent.mkdir()
    assert compile_model(again, PYTHONHASHSEED="7", TMPDIR=str(tmp_path), XDG_CACHE_HOME=str(tmp_path)) == 0
    contents = [{p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in (artifact, again)]
    assert contents[0] == contents[1]
    assert all(str(tmp_path).encode() not in content for content in contents[1].values())
