"""On a real device: artifacts verified and timed, a bundle run. ``pytest -m gpu`` on the machine that has one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from redfuser.artifact.device import open_device
from redfuser.codegen.gpu.tools.toolchain import Toolchain
from redfuser.errors import MissingToolError
from redfuser.report.value import TargetInfo
from tests.codegen.gpu.whole.recording import ROOT

pytestmark = pytest.mark.gpu

MODEL = ROOT / "models" / "tiny_bert.onnx"

#: compute capability -> a target whose machine code it runs
TARGETS = {"8.0": "a100-80g", "8.6": "a10", "8.9": "l40s", "9.0": "h800"}

#: One case for each of the paper's workloads.
CASES = {"mha": "bert-base", "mla": "kv-1024", "moe": "deepseek-v2-lite", "moments": "variance", "quant": "int8-1024"}


@pytest.fixture(scope="module")
def target() -> str:
    """A target that the first device of this machine runs; skips where there is none."""
    pytest.importorskip("tvm")
    for capability, name in TARGETS.items():
        try:
            open_device(TargetInfo(name, "gpu", f"sm_{capability.replace('.', '')}"), 0)
        except MissingToolError as missing:
            reason = missing.message
            continue
        return name
    pytest.skip(reason)


def redfuser(*arguments: object, expected: int = 0) -> str:
    """Run the command line; gives its stdout."""
    command = [sys.executable, "-m", "redfuser_cli.main", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == expected, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("fp32", ["tf32", "3xtf32", "ieee"])
def test_a_model_is_right_and_timed(target: str, fp32: str, toolchain: Toolchain, tmp_path: Path) -> None:
    artifact = tmp_path / "out"
    redfuser("compile", MODEL, "--target", target, "--fp32", fp32, "--strict", "-q", "-o", artifact)
    assert "PASSED" in redfuser("verify", artifact, "--model", MODEL, "--device", "cuda", "-q")
    (case,) = json.loads(redfuser("bench", artifact, "--device", "cuda", "--format", "json", "-q"))["cases"]
    assert case["sides"][0]["median_us"] > 0


@pytest.mark.parametrize("name", ["bert__fp16", "llama__fp16", "gemma2__fp16", "deepseek_v3__fp16"])
def test_a_model_in_half_precision_is_right(
    name: str, target: str, corpus: Path, toolchain: Toolchain, tmp_path: Path
) -> None:
    model, artifact = corpus / "exported" / f"{name}.onnx", tmp_path / "out"
    redfuser("compile", model, "--target", target, "-q", "-o", artifact)
    assert "PASSED" in redfuser("verify", artifact, "--model", model, "--device", "cuda", "-q")


@pytest.mark.parametrize("workload", CASES)
def test_a_workload_is_timed_against_its_peers(workload: str, target: str, toolchain: Toolchain) -> None:
    options = ("--case", CASES[workload], "--target", target, "--device", "cuda", "--format", "json", "-q")
    (case,) = json.loads(redfuser("bench", workload, *options))["cases"]
    assert {"redfuser", "unfused"} <= {side["side"] for side in case["sides"]}


@pytest.mark.parametrize("workload", CASES)
def test_a_bundle_is_right(workload: str, target: str, toolchain: Toolchain, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    redfuser("bench", workload, "--case", CASES[workload], "--target", target, "--export", bundle, "-q")
    done = subprocess.run([sys.executable, str(bundle / "run.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stdout + done.stderr
