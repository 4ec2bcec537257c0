import json
from dataclasses import replace

import pytest

from redfuser.codegen.gpu import Argument, GpuKernel, GpuProgram, Resources, TensorMap
from redfuser.expr import Tensor
from redfuser.records import RecordError, decode, encode, to_text

MAP = TensorMap(6, (128, 256, 4), (256, 65536), (64, 128, 1), (1, 1, 1), 0, 3, 2, 0)
KERNEL = GpuKernel(
    name="attention_0",
    script="# script",
    source="// source",
    cubin=b"\x7fELF\x00\xff",
    entry="attention_0_kernel",
    arguments=(
        Argument("q", "float16", (4, 256, 128), "input", MAP),
        Argument("out", "float16", (4, 256, 128), "output"),
    ),
    grid=(2, 4, 1),
    block=(384, 1, 1),
    cluster=(1, 1, 1),
    resources=Resources(168, 0, 0, 72, 163840, 384),
    arch="sm_90a",
)


def test_a_kernel_survives_json() -> None:
    data = json.loads(to_text(encode(KERNEL)))
    assert decode(GpuKernel, data) == KERNEL


@pytest.mark.parametrize(("key", "value"), [("cubin", "not base 64"), ("grid", [1, 1]), ("arch", None)])
def test_what_is_no_kernel_is_refused(key: str, value: object) -> None:
    with pytest.raises(RecordError):
        decode(GpuKernel, {**encode(KERNEL), key: value})


def test_the_text_says_how_to_launch() -> None:
    text = str(GpuProgram("attention_0", (), (), (Tensor("m.segments", (2, 4), "float32"),), (KERNEL,)))
    assert "workspace m.segments: float32[2, 4]" in text
    assert "input q: float16[4, 256, 128] as map" in text
    assert "grid [2, 4, 1] block [384, 1, 1]" in text
    assert "168 registers, 0 B spilled, 163912 B shared" in text


def test_a_tensor_map_describes_every_dimension() -> None:
    with pytest.raises(ValueError, match="all described"):
        replace(MAP, box=(64, 128))
