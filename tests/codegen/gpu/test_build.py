"""Programs as machine code: what the compiler made of them, and what is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from redfuser.codegen.gpu import Builder, GpuProgram, Refused
from redfuser.codegen.gpu.gate import block_registers
from redfuser.codegen.gpu.tools.cache import KernelCache
from redfuser.codegen.gpu.tools.worker import Worker
from tests.codegen.gpu.programs import Attention, gpu, program

LONG = Attention(heads=2, groups=2, q_len=200, kv_len=300, dim=128, v_dim=128, mask="bool")


@pytest.fixture(scope="module")
def hopper(builder: Builder) -> GpuProgram:
    return builder.build(program(LONG.cascade(), options={"threads": 256}, i=128, j=128), gpu("h800"))


def test_attention_on_hopper_is_warp_specialised_without_spills(hopper: GpuProgram) -> None:
    [kernel] = hopper.kernels
    assert kernel.resources.spills == 0
    assert kernel.resources.threads == 384, "two consumers and a producer"
    assert block_registers(kernel.resources) <= 65536
    assert "wgmma" in kernel.source and "tma_load" in kernel.source and "warpgroup_reg_dealloc" in kernel.source
    assert kernel.cubin.startswith(b"\x7fELF")


def test_arguments_come_in_the_kernels_own_order(hopper: GpuProgram) -> None:
    [kernel] = hopper.kernels
    by_name = {argument.tensor: argument for argument in kernel.arguments}
    assert set(by_name) == {"q", "k", "v", "mask", "out"}
    assert by_name["out"].role == "output" and by_name["out"].tensor_map is None
    described = by_name["k"].tensor_map
    assert described is not None and described.shape == (128, 300, 1, 1) and described.box == (64, 128, 1, 1)
    assert (kernel.grid, kernel.block) == ((2, 2, 1), (384, 1, 1))


@pytest.mark.slow
def test_attention_on_ampere_hardly_spills(builder: Builder) -> None:
    built = builder.build(program(LONG.cascade(), options={"threads": 128, "stages": 1}, i=64, j=64), gpu("a10"))
    assert built.kernels[0].resources.spills <= 16
    assert "mma_sync" in built.kernels[0].source


@pytest.mark.slow
def test_what_takes_too_much_shared_memory_is_refused(builder: Builder) -> None:
    with pytest.raises(Refused, match="more shared memory than the target has"):
        builder.build(program(LONG.cascade(), options={"threads": 256, "stages": 3}, i=128, j=128), gpu("a10"))


@pytest.mark.slow
def test_a_kernel_is_built_once(builder: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = program(Attention(heads=1).cascade(), i=64, j=64)
    with Builder(workers=1, cache=KernelCache(tmp_path)) as caching:
        first = caching.build(small, gpu("a100-80g"))
    assert builder.build(small, gpu("a100-80g")) == first, "the same bytes from another process"
    monkeypatch.delattr(Worker, "lower")
    with Builder(workers=1, cache=KernelCache(tmp_path)) as idle:
        assert idle.build(small, gpu("a100-80g")) == first
    [file] = tmp_path.rglob("*.json")
    file.write_text("{}")
    assert KernelCache(tmp_path).get(file.stem) is None
