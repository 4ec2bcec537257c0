"""PTX is read for what it uses, and kernels use what their architecture has."""

from __future__ import annotations

import pytest

from redfuser.codegen.gpu.tools.toolchain import find_toolchain
from redfuser.codegen.gpu.tools.toolkit import compile_cuda
from redfuser.errors import MissingToolError
from tests.codegen.gpu.ptx import problems, read_ptx
from tests.emulator import cases

AMPERE = """
.version 9.0
.target sm_86
.visible .entry kernel(.param .u64 a) {
  .reg .pred %p<3>;  // mma.sync in a comment isn't one
  cp.async.cg.shared.global [%r1], [%rd1], 16, 16;
$L__1:
  @%p1 bra $L__2;
  { mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4},{%r1},{%r2},{%f1}; }
$L__2: ret;
}
"""


def test_units_are_counted() -> None:
    ptx = read_ptx(AMPERE)
    assert ptx.target == "sm_86"
    assert (ptx.count(r"mma\.sync"), ptx.count(r"cp\.async"), ptx.local) == (1, 1, 0)
    assert problems(AMPERE, "sm_86") == []


def test_missing_units_are_named() -> None:
    assert problems(AMPERE.replace("sm_86", "sm_90a"), "sm_90a") == [
        "it has no wgmma.mma_async",
        "it has no cp.async.bulk.tensor",
    ]
    assert problems("\n".join(line for line in AMPERE.splitlines() if "{ mma" not in line), "sm_86") == [
        "it has no mma.sync"
    ]


def test_products_of_float32_may_use_either_unit() -> None:
    hopper = AMPERE.replace("sm_86", "sm_90a")
    assert problems(hopper, "sm_90a", copies=False, tf32=True) == []
    assert problems(hopper, "sm_90a", copies=False) == ["it has no wgmma.mma_async"]


def test_another_architecture_is_named() -> None:
    assert problems(AMPERE, "sm_80") == ["it is for sm_86, not sm_80"]


def test_local_memory_is_refused() -> None:
    spilling = AMPERE.replace("  ret;", "").replace(
        "$L__2:", "$L__2: st.local.v2.f32 [%rd2], {%f1,%f2}; @%p1 ld.volatile.local.f32 %f1, [%rd2];"
    )
    assert problems(spilling, "sm_86") == ["it loads from or stores to local memory 2 times"]


def test_what_isnt_ptx_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no \.target"):
        read_ptx("int main() {}")


@pytest.mark.parametrize("name", ["attention_sm90", pytest.param("attention_sm86_bfloat16", marks=pytest.mark.slow)])
def test_attention_uses_its_architecture(name: str) -> None:
    case = cases.case(name)
    try:
        includes = find_toolchain().includes
    except MissingToolError as missing:
        pytest.skip(missing.message)
    ptx = compile_cuda(case.source, case.record.arch, ["-std=c++20", *includes]).ptx
    assert problems(ptx, case.record.arch) == []
