"""The data of a module, written for an assembler: what TVM's own packing gives, byte for byte."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from redfuser.codegen.cpu.module import Assembly, assemble
from redfuser.codegen.library import SYMBOL
from redfuser.errors import MissingToolError
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import legalised

WEIGHTS = np.arange(12, dtype=np.float32).reshape(3, 4)


def compiled() -> Assembly:
    x = relax.Var("x", relax.TensorStructInfo([5, 3], "float32"))
    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    return assemble(legalised([x], lambda: relax.op.matmul(x, relax.const(WEIGHTS))), (), target)


def data(library: Path) -> bytes:
    """What the library holds for TVM, with the size before it."""
    start = ctypes.addressof(ctypes.c_char.in_dll(ctypes.CDLL(str(library)), SYMBOL))
    size = ctypes.c_uint64.from_address(start).value
    return ctypes.string_at(start, 8 + size)


def test_equals_what_tvm_packs(tmp_path: Path) -> None:
    assembly = compiled()
    assembly.write(tmp_path / "ours.so")
    assembly.executable.export_library(str(tmp_path / "theirs.so"))
    assert WEIGHTS.tobytes() in data(tmp_path / "theirs.so")
    assert data(tmp_path / "ours.so") == data(tmp_path / "theirs.so")


def test_loads_and_runs(tmp_path: Path) -> None:
    compiled().write(tmp_path / "module.so")
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "module.so")), tvm.cpu())
    x = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    assert np.allclose(machine["main"](tvm.runtime.tensor(x)).numpy(), x @ WEIGHTS, rtol=1e-5)


def test_a_linker_that_fails_is_named_with_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    linker = tmp_path / "linker"
    linker.write_text("#!/bin/sh\necho 'ld: final link failed: No space left on device: error' >&2; exit 1\n")
    linker.chmod(0o755)
    monkeypatch.setattr("redfuser.codegen.assembly.find_linker", lambda _: str(linker))
    with pytest.raises(MissingToolError, match=f"{linker} can't link the module: ld: .* No space left") as caught:
        compiled().write(tmp_path / "module.so")
    assert "TMPDIR" in caught.value.hint and not (tmp_path / "module.so").exists()
