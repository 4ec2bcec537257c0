"""What lies at a path is what runs, whatever lay there before."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper, parser
from tvm import relax

import redfuser
from redfuser.artifact.library import open_library
from redfuser.errors import VerificationError
from redfuser.targets import load_target

X = np.arange(6, dtype=np.float32)
Compile = Callable[[int, Path], Path]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Writes an artifact that adds a number to six others."""
    place = tmp_path_factory.mktemp("models")

    def compile(added: int, output: Path) -> Path:
        text = f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[6] x) => (float[6] y) {{ n = Constant <value_float = {float(added)}> () y = Add(x, n) }}"""
        onnx.save(parser.parse_model(text), place / f"{added}.onnx")
        redfuser.compile(place / f"{added}.onnx", output=output, force=True)
        return output

    return compile


def mapped(text: str) -> list[str]:
    """The mappings of files whose path contains a text."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if text in line]


def test_a_replaced_artifact_is_loaded_anew(compiled: Compile, tmp_path: Path) -> None:
    models = [redfuser.load(compiled(added, tmp_path / "served")) for added in (1, 2, 3)]
    for added, model in enumerate(models, 1):  # those of before run on
        np.testing.assert_array_equal(model({"x": X})["y"], X + added)


def test_a_link_that_is_turned_is_followed(compiled: Compile, tmp_path: Path) -> None:
    served, results = tmp_path / "served", []
    for added in (1, 2):
        served.unlink(missing_ok=True)
        served.symlink_to(compiled(added, tmp_path / f"v{added}"))
        results.append(redfuser.load(served)({"x": X})["y"])
    np.testing.assert_array_equal(results, [X + 1, X + 2])


def test_overwritten_files_are_loaded_anew(compiled: Compile, tmp_path: Path) -> None:
    """The old library, whose code was taken from under it, isn't called; nor at exit, as it may crash there."""
    old, new = (compiled(added, tmp_path / f"v{added}") for added in (1, 2))
    script = f"""
import os, pathlib, numpy as np, redfuser
old, new = pathlib.Path({str(old)!r}), pathlib.Path({str(new)!r})
models, opened = [redfuser.load(old)], len(os.listdir("/proc/self/fd"))
inode = (old / "module.so").stat().st_ino
for name in ("module.so", "manifest.json"):
    (old / name).write_bytes((new / name).read_bytes())
assert (old / "module.so").stat().st_ino == inode
x = np.arange(6, dtype=np.float32)
for _ in range(2):
    models.append(redfuser.load(old))
    np.testing.assert_array_equal(models[-1]({{"x": x}})["y"], x + 2)
assert len(os.listdir("/proc/self/fd")) == opened
os._exit(7)
"""
    assert subprocess.run([sys.executable, "-c", script]).returncode == 7


def test_an_unchanged_library_is_shared_and_closed_after_its_last_user(compiled: Compile, tmp_path: Path) -> None:
    folder = compiled(1, tmp_path / "shared")
    models, seen = [redfuser.load(folder)], len(mapped(str(folder)))
    models.append(redfuser.load(tmp_path / "." / "shared" / ".." / "shared"))
    assert len(mapped(str(folder))) == seen > 0
    result = models[0]({"x": X})["y"]
    del models[0]
    gc.collect()
    assert len(mapped(str(folder))) == seen
    np.testing.assert_array_equal(models[0]({"x": X})["y"], X + 1)
    models.clear()
    gc.collect()
    assert not mapped(str(folder))
    np.testing.assert_array_equal(result, X + 1)


def test_libraries_of_gpus_stay_open(compiled: Compile, tmp_path: Path) -> None:
    folder = compiled(1, tmp_path / "kept")
    open_library(folder / "module.so", keep=True)
    gc.collect()
    assert mapped(str(folder))


def test_nothing_is_written(compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = compiled(1, tmp_path / "sealed")
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    monkeypatch.setattr("tempfile.tempdir", None)
    np.testing.assert_array_equal(redfuser.load(folder)({"x": X})["y"], X + 1)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_no_library_is_named_by_its_own_path(compiled: Compile, tmp_path: Path) -> None:
    folder = compiled(1, tmp_path / "damaged")
    size = os.path.getsize(folder / "module.so")
    (folder / "module.so").write_bytes(b"not a library".ljust(size))
    with pytest.raises(VerificationError) as refused:
        redfuser.load(folder)
    assert str(folder / "module.so") in refused.value.message and "/./" not in refused.value.message


def test_weights_are_read_where_they_lie(tmp_path: Path) -> None:
    """None is in memory before a call needs it, and then as a page of the file alone, which processes share."""
    size = 1 << 24
    weight = np.random.default_rng(0).random(size, np.float32)
    add = helper.make_node("Add", ["x", "w"], ["z"])
    total = helper.make_node("ReduceMax", ["z"], ["y"], keepdims=0)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [])
    graph = helper.make_graph([add, total], "g", [x], [y], [numpy_helper.from_array(weight, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), tmp_path / "m.onnx")
    redfuser.compile(tmp_path / "m.onnx", output=tmp_path / "out")
    before = own_memory()
    model = redfuser.load(tmp_path / "out")
    assert resident(str(tmp_path / "out")) < weight.nbytes // 4
    np.testing.assert_array_equal(model({"x": np.zeros(1, np.float32)})["y"], weight.max())
    assert own_memory() - before < weight.nbytes // 2
    assert weight.nbytes // 2 < resident(str(tmp_path / "out")) < weight.nbytes * 3 // 2


def test_weights_that_tvm_copies_are_held_once(tmp_path: Path) -> None:
    """What is mapped of the file doesn't stay in memory, and comes back for who loads it again."""
    weight = np.random.default_rng(0).random(1 << 22, np.float32)
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo(weight.shape, "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.add(x, relax.const(weight))))
    target = tvm.target.Target(load_target("cpu-x86-64").llvm())
    path = tmp_path / "out.so"
    tvm.relax.build(relax.transform.LegalizeOps()(builder.get()), target).export_library(str(path))
    for _ in range(2):
        machine = relax.VirtualMachine(open_library(path, keep=False), tvm.cpu())
        assert resident(str(path)) < weight.nbytes // 4
        result = machine["main"](tvm.runtime.tensor(np.zeros_like(weight)))
        np.testing.assert_array_equal(result.numpy(), weight)


def resident(text: str) -> int:
    """Bytes in memory of files whose path contains a text."""
    total, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            ours = text in line
        elif ours and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


def own_memory() -> int:
    """Bytes in memory of no file."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024
