"""TVM's runtime alone, and tensors that share memory with NumPy's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import parser, save
from tvm_ffi import device

import redfuser
from redfuser.artifact import runtime
from redfuser.artifact.runtime import to_device, to_host
from redfuser.errors import MissingToolError

X = np.arange(12).reshape(3, 4)


@pytest.fixture(scope="module")
def sorting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact of a model whose operator TVM's runtime computes itself."""
    folder = tmp_path_factory.mktemp("sorting")
    text = """<ir_version: 8, opset_import: ["" : 18]>
    g (float[3, 4] x) => (float[3, 4] y, int64[3, 4] i) { k = Constant <value_ints = [4]> () y, i = TopK(x, k) }"""
    save(parser.parse_model(text), folder / "m.onnx")
    return redfuser.compile(folder / "m.onnx", output=folder / "out").path


def test_a_model_runs_without_the_compiler_and_beside_it(sorting: Path) -> None:
    script = f"""
import sys, numpy as np, redfuser
def check(model):
    results = model({{"x": np.arange(12, dtype=np.float32).reshape(3, 4)}})
    assert results["i"].tolist() == [[3, 2, 1, 0]] * 3, results
model = redfuser.load({str(sorting)!r})
check(model)
assert "tvm" not in sys.modules
import tvm
assert tvm.target.Target("llvm")
check(model)
check(redfuser.load({str(sorting)!r}))
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("way", ["runtime.LIBRARIES = ('nowhere.so',)", "os.environ['TVM_LIBRARY_PATH'] = '/nowhere'"])
def test_a_runtime_in_other_parts_is_left_to_tvm(way: str) -> None:
    script = f"""
import os, sys
from redfuser.artifact import runtime
{way}
runtime.load_runtime()
assert "tvm" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("kind", ["float32", "float16", "bool", "int64", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn])
def test_no_element_is_copied(kind: str | type) -> None:
    x = X.astype(kind)
    x.setflags(write=False)
    back = to_host(to_device(x, device("cpu", 0)))
    assert back.dtype == x.dtype and back.shape == x.shape and np.shares_memory(back, x)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("kind", ["float32", ml_dtypes.bfloat16])
def test_nothing_has_a_shape(kind: str | type) -> None:
    back = to_host(to_device(np.zeros((2, 0, 3), kind), device("cpu", 0)))
    assert back.shape == (2, 0, 3) and back.dtype == kind


def test_a_missing_runtime_is_named(sorting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "tvm", raising=False)
    monkeypatch.setattr(runtime, "find_spec", lambda _: None)
    with pytest.raises(MissingToolError, match="apache-tvm cannot be loaded: No module named 'tvm'"):
        redfuser.load(sorting)
