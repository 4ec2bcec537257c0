"""A bundle: what it holds, that its script runs with NumPy alone, and that it tells right from wrong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from redfuser.artifact import bundle_runner
from redfuser.artifact.bundle import BundledKernel, capabilities, write_bundle
from redfuser.artifact.bundle_runner import judge, values_of
from redfuser.codegen.gpu import Builder
from redfuser.errors import OutputError
from tests.codegen.gpu.programs import Attention, gpu, program
from tests.codegen.gpu.recording import Recorder


@pytest.fixture(scope="module")
def bundle(builder: Builder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One attention, split over its keys, for an H800."""
    target, folder = gpu("h800"), tmp_path_factory.mktemp("bundle") / "out"
    tiled = program(Attention(heads=1, mask="bool").cascade(), "multi-segment", 2, {"threads": 128}, i=64, j=64)
    kernel = BundledKernel("attention", 1000, tiled, builder.build(tiled, target))
    write_bundle(folder, "one.onnx", target, (kernel,), seed=0)
    return folder


def test_the_script_needs_numpy_alone(bundle: Path, recorder: Recorder) -> None:
    script = (bundle / "run.py").read_text()
    imported = set(re.findall(r"^(?:import|from) (\w+)", script, re.MULTILINE))
    assert imported == {"__future__", "argparse", "collections", "ctypes", "json", "numpy", "pathlib", "statistics",
                        "sys", "time", "typing"}  # fmt: skip
    done = recorder.run(str(bundle / "run.py"), "--repeat", "2", "--json", str(bundle / "result.json"))
    # The recorder computes nothing, and the script notices: outputs were NaN before the launch and still are.
    assert done.code == 1 and "FAILED: attention_0" in done.output and "NaN or infinity" in done.output, done.output
    result = json.loads((bundle / "result.json").read_text())
    assert result["device"] == "Recorder 0" and result["capability"] == "9.0"
    assert result["programs"]["attention_0"][0]["times_ms"] == [0.25, 0.25]


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

    monkeypatch.setattr(bundle_runner.ctypes, "CDLL", missing)
    monkeypatch.setattr(bundle_runner, "__file__", str(bundle / "run.py"))
    assert bundle_runner.main([]) == 2
    assert "no NVIDIA driver" in capsys.readouterr().err


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
