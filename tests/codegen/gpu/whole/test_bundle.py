"""A bundle: what it holds, that its script runs with NumPy alone, and that it tells right from wrong."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from redfuser.artifact.bundle import BundledKernel, Peer, capabilities, write_bundle
from redfuser.artifact.runner import driver
from redfuser.artifact.runner.main import main, take_turns
from redfuser.artifact.runner.numbers import judge, values_of
from redfuser.artifact.runner.torch_peers import sides
from redfuser.codegen.gpu import Builder, GpuProgram
from redfuser.codegen.gpu.tools.toolchain import Toolchain
from redfuser.errors import OutputError
from redfuser.tile.trials import trial_inputs
from tests.codegen.gpu.programs import Attention, gpu, program
from tests.codegen.gpu.whole.recording import Recorder
from tests.emulator.artifact import emulating
from tests.emulator.library import needs_compiler


@pytest.fixture(scope="module")
def attention(builder: Builder) -> BundledKernel:
    """One attention, split over its keys, for an H800."""
    tiled = program(Attention(heads=1, mask="bool").cascade(), "multi-segment", 2, {"threads": 128}, i=64, j=64)
    peer = Peer("attention", ("q", "k", "v"), {"heads": 1})
    return BundledKernel("attention", 1000, tiled, builder.build(tiled, gpu("h800")), peer=peer)


@pytest.fixture(scope="module")
def bundle(attention: BundledKernel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "out"
    write_bundle(folder, "one.onnx", gpu("h800"), (attention,), seed=0)
    return folder


@needs_compiler
def test_the_script_passes_a_right_kernel(
    attention: BundledKernel, bundle: Path, recorder: Recorder, tmp_path: Path
) -> None:
    emulator = emulating([kernel.source for kernel in attention.code.kernels], recorder, tmp_path / "emulation")
    done = emulator.run(str(bundle / "run.py"), "--repeat", "0", "--no-torch")
    assert done.code == 0 and "FAILED" not in done.output, done.output


def test_the_script_needs_numpy_alone(bundle: Path, recorder: Recorder) -> None:
    sources = [path.read_text() for path in (bundle / "run.py", *(bundle / "runner").glob("*.py"))]
    imported = {name for text in sources for name in re.findall(r"^(?:import|from) ([\w.]+)", text, re.MULTILINE)}
    packages = {name.split(".")[0] for name in imported if not name.startswith(".")}
    assert packages - sys.stdlib_module_names == {"numpy", "runner"}
    done = recorder.run(str(bundle / "run.py"), "--repeat", "2", "--json", str(bundle / "result.json"))
    # The recorder computes nothing, and the script notices: outputs were NaN before the launch and still are.
    assert done.code == 1 and "FAILED: attention_0" in done.output and "NaN or infinity" in done.output, done.output
    result = json.loads((bundle / "result.json").read_text())
    assert result["device"] == "Recorder 0" and result["capability"] == "9.0"
    first, *others = result["programs"]["attention_0"]
    assert first["times_ms"] == {"redfuser": [0.25, 0.25]} and not any(other["times_ms"] for other in others)
    assert "torch" in first["absent"], "PyTorch here has no CUDA, or doesn't believe in the recorder"


def test_launches_are_those_of_the_module(bundle: Path, recorder: Recorder) -> None:
    described = json.loads((bundle / "bundle.json").read_text())
    (attention,) = described["programs"]
    done = recorder.run(str(bundle / "run.py"), "--repeat", "0")
    launches = done.of("launch")
    assert len(launches) == 2 * len(attention["cases"]), "a partial and a merge for every case"
    for step, event in zip(attention["kernels"], launches, strict=False):
        assert [event[name] for name in ("kernel", "grid", "block", "cluster", "shared")] == [
            step[name] for name in ("entry", "grid", "block", "cluster", "shared")
        ]
        mapped = [argument["tensor_map"] is not None for argument in step["arguments"]]
        assert ["map" in argument for argument in event["arguments"]] == mapped
        sizes = {tensor["name"]: tensor["bytes"] for tensor in attention["tensors"]}
        plain = [(a, e) for a, e in zip(step["arguments"], event["arguments"], strict=True) if "size" in e]
        assert all(e["size"] == sizes[a["tensor"]] for a, e in plain)


def test_the_inputs_are_those_that_the_outputs_were_computed_from(bundle: Path) -> None:
    case = np.load(bundle / "attention_0" / "case_0.npz")
    q, k, v = (case[f"input:{n}"].view(np.float16).astype(np.float64) for n in "qkv")
    scores = q.reshape(128, 64) @ k.reshape(256, 64).T / 8
    scores += np.where(case["input:mask"].view(bool).reshape(128, 256), 0, -65504.0)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    expected = weights / weights.sum(1, keepdims=True) @ v.reshape(256, 64)
    np.testing.assert_allclose(case["exact:out"].reshape(128, 64), expected, rtol=1e-9, atol=1e-9)
    assert case["written:out"].all()


def test_another_device_is_refused(bundle: Path, recorder: Recorder) -> None:
    done = recorder.run(str(bundle / "run.py"), capability=80)
    assert done.code == 2 and "the kernels are for sm_90a; Recorder 0 has 8.0" in done.output
    assert not done.of("launch")


def test_without_a_driver_the_script_says_so(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_: str) -> None:
        raise OSError("not found")

    monkeypatch.setattr(driver.ctypes, "CDLL", missing)
    assert main(bundle, []) == 2
    assert "no NVIDIA driver" in capsys.readouterr().err


def test_a_kernel_and_its_peers_take_turns() -> None:
    order: list[str] = []

    class Stopwatch:
        def milliseconds(self, launch: Callable[[], object], repeat: int) -> list[float]:
            launch()
            return [1.0] * repeat

    runs = {name: partial(order.append, name) for name in ("redfuser", "torch")}
    times = take_turns(cast(driver.Device, Stopwatch()), runs, 7)
    assert {side: len(taken) for side, taken in times.items()} == {"redfuser": 7, "torch": 7}
    assert order == ["redfuser", "torch"] * 5


def test_every_peer_computes_what_its_workload_does() -> None:
    torch = pytest.importorskip("torch")
    for name, expected in {
        "attention": {"torch", "torch sdpa", "torch.compile"},
        "softmax": {"torch", "torch.compile"},
    }.items():
        tensors = [torch.randn(1, 2, 8, 16) for _ in range(3 if name == "attention" else 1)]
        found = sides(name, tensors, {"heads": 2})
        assert found.keys() == expected
        results = [found[side]() for side in ("torch", "torch sdpa") if side in found]
        assert all(torch.allclose(results[0], other, atol=1e-5) for other in results)


@pytest.mark.slow
def test_a_case_of_a_workload_makes_a_bundle_with_its_peer(
    recorder: Recorder, toolchain: Toolchain, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    made = recorder.redfuser("bench", "moments", "--case", "variance", "--target", "h800", "--export", out, "-q")
    assert made.code == 0 and f"wrote {out}" in made.output, made.output
    (described,) = json.loads((out / "bundle.json").read_text())["programs"]
    assert described["peer"] == {"arguments": {"rows": 4096, "width": 4096}, "inputs": ["x0"], "name": "variance"}
    done = recorder.run(str(out / "run.py"), "--repeat", "1", "--no-torch")
    assert done.code == 1 and "FAILED" in done.output and len(done.of("launch")) == 3 + 3 + 1, done.output


def test_products_of_float32_are_allowed_what_tf32_rounds(bundle: Path) -> None:
    tiled = program(Attention(dtype="float32", heads=1).cascade(), i=64, j=64)
    code = GpuProgram("attention", tiled.inputs, tiled.outputs, (), ())
    assert BundledKernel("attention", 0, tiled, code, tf32=True).rule(tiled.outputs[0]) == "tf32"
    assert BundledKernel("attention", 0, tiled, code).rule(tiled.outputs[0]) == "float32"


def test_what_tf32_makes_of_large_factors_is_allowed_too() -> None:
    tiled = program(Attention(dtype="float32", heads=1, q_len=64, kv_len=64).cascade(), i=64, j=64)
    code = GpuProgram("attention", tiled.inputs, tiled.outputs, (), ())
    inputs = next(islice(trial_inputs(tiled, 0), 1, 2))
    errors = []
    for tf32 in (True, False):
        exact, rounded, written = BundledKernel("attention", 0, tiled, code, tf32).expected(inputs, None)
        assert written["out"].all()
        errors.append(np.abs(rounded["out"] - exact["out"]).max())
    assert errors[0] > 50 * errors[1]


def test_right_and_wrong_are_told_apart() -> None:
    exact = np.array([1.0, 2.0, np.nan, -np.inf, 7e4])
    rounded = np.array([1.0, 2.0, np.nan, -np.inf, np.inf])
    where = np.ones(5, bool)
    assert judge(rounded, exact, rounded, where, 1e-3) == (0.0, "")
    assert judge(exact + np.array([1e-2, 0, 0, 0, 0]), exact, rounded, where, 1e-3)[1].startswith("the error is larger")
    assert "wrong place in 1 of 5" in judge(np.array([1.0, 2.0, 0.0, -np.inf, 7e4]), exact, rounded, where, 1)[1]
    unwritten = np.array([True, True, True, True, False])
    assert judge(np.array([1.0, 2.0, np.nan, -np.inf, 0.0]), exact, rounded, unwritten, 1e-3) == (0.0, "")
    whole = np.array([1, 2, 3])
    assert judge(np.array([1, 2, 4]), whole, whole, np.ones(3, bool), 0)[1] == "1 of 3 elements differ"


def test_types_that_numpy_lacks_are_read_from_their_bits() -> None:
    tensor = {"dtype": "bfloat16", "shape": [2], "table": None}
    assert values_of(np.array([0x3F80, 0xC000], np.uint16).tobytes(), tensor).tolist() == [1.0, -2.0]
    table = [0.0, 1.5, None] + [0.0] * 253
    found = values_of(bytes([1, 2]), {"dtype": "float8_e4m3fn", "shape": [2], "table": table})
    assert found[0] == 1.5 and np.isnan(found[1])


def test_capabilities_that_run_an_architecture() -> None:
    assert capabilities("sm_90a") == ["9.0"]
    assert capabilities("sm_80") == ["8.0", "8.6", "8.7", "8.9"] and capabilities("sm_86") == ["8.6", "8.7", "8.9"]


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    with pytest.raises(OutputError, match="isn't empty"):
        write_bundle(tmp_path, "m", gpu("h800"), (), 0)
