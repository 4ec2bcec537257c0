"""Finding nvcc, compiling with it, and saying what is missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from redfuser.codegen.gpu.tools import toolkit
from redfuser.codegen.gpu.tools.toolkit import CudaError, compile_cuda, find_nvcc
from redfuser.errors import MissingToolError

DOUBLE = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'


def test_equal_sources_give_equal_machine_code(nvcc: Path) -> None:
    first, second = compile_cuda(DOUBLE, "sm_90a"), compile_cuda(DOUBLE, "sm_90a")
    assert first.code == second.code and first.code.startswith(b"\x7fELF")
    assert "Used" in first.log and "registers" in first.log


def test_a_source_that_does_not_compile_is_refused_in_one_line(nvcc: Path) -> None:
    with pytest.raises(CudaError, match="error") as caught:
        compile_cuda("__global__ void broken() { undeclared = 1; }", "sm_80")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("present", ["", "gcc", "nvcc"])
def test_what_is_missing_is_named_with_its_mend(present: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "_in_wheels", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/usr/bin/{tool}" if tool == present else None)
    with pytest.raises(MissingToolError) as caught:
        find_nvcc()
    assert caught.value.exit_code == 8
    assert (caught.value.hint == toolkit.MEND) == (present != "nvcc")


def test_a_compiler_on_the_search_path_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "_in_wheels", lambda: None)
    monkeypatch.setattr(shutil, "which", lambda tool: f"/usr/bin/{tool}")
    assert find_nvcc() == Path("/usr/bin/nvcc")
