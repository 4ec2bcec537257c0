"""Artifacts for another kind of processor.

What they compute is checked where the environment variable names a command that starts a Python for aarch64 with
apache-tvm, such as ``qemu-aarch64-static -L ROOT ROOT/usr/bin/python3.11``; on an aarch64 machine every test checks it.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import redfuser
from models import reductions
from models.attention import attention
from models.tiny_bert import tiny_bert
from redfuser.accuracy import compare
from redfuser.artifact.manifest import read_manifest
from redfuser.codegen.linker import find_linker
from redfuser.errors import MissingToolError
from redfuser.oracle.run import run_float64, run_onnxruntime
from redfuser.samples import random_inputs

PYTHON = "REDFUSER_AARCH64_PYTHON"

MODELS: dict[str, Callable[[], ModelProto]] = {
    "softmax": lambda: reductions.softmax(9, 70),
    "layer-norm": lambda: reductions.layer_norm(9, 70),
    "variance": lambda: reductions.variance(9, 700),
    "routing": lambda: reductions.routing(17, 24, 3),
    "quantised-product": lambda: reductions.quantised_matmul(9, 70, 21),
    "large-weight": lambda: reductions.quantised_matmul(9, 300, 260, constant=True),
    "attention": lambda: attention(q_len=37, kv_len=70, mask="boolean"),
    "attention-float16": lambda: attention(q_len=37, kv_len=70, dtype="float16"),
    "decode": lambda: attention(q_len=1, kv_len=700, kv_heads=1),
    "bert": tiny_bert,
}

#: Runs the folders named on its command line, each on the arrays beside it, with TVM alone.
RUNS = """
import json, sys
import numpy as np, tvm
from tvm import relax
for folder in sys.argv[1:]:
    feeds = np.load(f"{folder}/../feeds.npz")
    names = [item["name"] for item in json.load(open(f"{folder}/manifest.json"))["inputs"]]
    machine = relax.VirtualMachine(tvm.runtime.load_module(f"{folder}/module.so"), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(feeds[name]) for name in names))
    results = [result] if hasattr(result, "numpy") else result
    np.savez(f"{folder}/../results.npz", *(each.numpy() for each in results))
"""


@pytest.fixture(autouse=True)
def _linker() -> None:
    try:
        find_linker("aarch64")
    except MissingToolError as error:
        pytest.skip(error.message)


def compiled(name: str, folder: Path) -> Path:
    folder.mkdir()
    model = folder / "model.onnx"
    model.write_bytes(MODELS[name]().SerializeToString())
    return redfuser.compile(model, target="cpu-aarch64", output=folder / "out").path


def test_an_artifact_is_machine_code_of_its_target(tmp_path: Path) -> None:
    path = compiled("softmax", tmp_path / "softmax")
    head = (path / "module.so").read_bytes()[:20]
    assert head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") == 183
    assert read_manifest(path).target.arch == "aarch64"
    if os.uname().machine != "aarch64":
        with pytest.raises(MissingToolError, match="compiled for cpu-aarch64; this processor lacks asimd"):
            redfuser.load(path)


@pytest.mark.slow
def test_an_emulated_processor_computes_what_float64_does(tmp_path: Path) -> None:
    command = sys.executable if os.uname().machine == "aarch64" else os.environ.get(PYTHON)
    if command is None:
        pytest.skip(f"{PYTHON} names no Python for aarch64")
    folders = []
    for name in MODELS:
        folders.append(compiled(name, tmp_path / name))
        np.savez(tmp_path / name / "feeds.npz", **random_inputs(read_manifest(folders[-1]).inputs, seed=0))
    subprocess.run([*shlex.split(command), "-c", RUNS, *map(str, folders)], check=True, timeout=1200)
    for name, path in zip(MODELS, folders, strict=True):
        feeds, results = (dict(np.load(path.parent / f"{part}.npz")) for part in ("feeds", "results"))
        proto = MODELS[name]()
        exact, rounded = run_float64(proto, feeds), run_onnxruntime(proto, feeds, 1)
        for spec, got in zip(read_manifest(path).outputs, results.values(), strict=True):
            accuracy = compare(got, exact[spec.name], rounded[spec.name], spec.dtype)
            assert accuracy.passed, f"{name}: {spec.name}: {accuracy}"
