"""The whole way, as a user goes it: the committed small model in, a verified artifact out."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import redfuser as library

MODEL = Path(__file__).resolve().parents[2] / "models" / "tiny_bert.onnx"


def test_compile_verify_run_report(redfuser, tmp_path: Path) -> None:
    output = tmp_path / "tiny"
    code, out, err = redfuser("compile", MODEL, "-o", output, "--require-fused", "attention>=2", "--strict")
    assert code == 0, err
    assert "2 attention" in out and "not fused" not in out
    assert list((output / "kernels").glob("attention_*/tile.txt"))

    code, out, err = redfuser("verify", output, "--model", MODEL, "-q")
    assert code == 0 and out.endswith("PASSED\n"), out + err

    code, out, _ = redfuser("report", output, "-v")
    assert code == 0 and "rank-1, exact" in out and "error against float64" in out

    model = library.load(output)
    outputs = model({spec.name: np.ones(spec.shape, spec.dtype) for spec in model.inputs})
    assert {name: array.shape for name, array in outputs.items()} == {s.name: s.shape for s in model.outputs}


def test_a_gpu_target_without_its_compiler_is_refused_before_any_work(
    redfuser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redfuser.codegen.gpu.tools.toolkit._in_wheels", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, out, err = redfuser("compile", MODEL, "--target", "h800", "-o", tmp_path / "tiny", "-q")
    assert (code, out) == (8, "") and "pip install 'redfuser[gpu]'" in err and not list(tmp_path.iterdir())


@pytest.mark.slow
def test_rebuilds_are_byte_identical_elsewhere(tmp_path: Path) -> None:
    builds = []
    for seed in ("1", "2"):
        folder = tmp_path / f"place{seed}" / "deeper"
        folder.mkdir(parents=True)
        (folder / "tiny.onnx").write_bytes(MODEL.read_bytes())
        environment = {**os.environ, "PYTHONHASHSEED": seed, "TMPDIR": str(folder.parent)}
        command = [sys.executable, "-m", "redfuser_cli.main", "compile", "tiny.onnx", "-q"]
        subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
        artifact = folder / "tiny.redfuser"
        builds.append({p.relative_to(artifact): p.read_bytes() for p in artifact.rglob("*") if p.is_file()})
    assert builds[0] == builds[1]
    assert all(str(tmp_path).encode() not in content for content in builds[0].values())


def test_a_bundle_is_for_gpus(redfuser, tmp_path: Path) -> None:
    code, out, err = redfuser("bench", MODEL, "--target", "cpu-avx2", "--export", tmp_path / "bundle", "-q")
    assert (code, out) == (2, "") and "a bundle is for a GPU" in err and not list(tmp_path.iterdir())
