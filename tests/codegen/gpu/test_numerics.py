"""Emitted kernels, run on the CPU by the emulator, against the interpreter in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from redfuser.accuracy import compare
from redfuser.algebra import derive
from redfuser.cascade.canonical import canonicalise
from redfuser.cascade.literals import lift
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu import Builder, GpuProgram, Refused
from redfuser.codegen.gpu.schedule import candidates
from redfuser.codegen.gpu.tools.toolchain import Toolchain
from redfuser.options import Fp32
from redfuser.tile import Schedule, TileProgram, build, interpret
from tests.codegen.gpu.programs import (
    Array,
    Attention,
    byte_product,
    gpu,
    integer_product,
    quantised_product,
    random_inputs,
    scaled_product,
    softmax,
)
from tests.emulator.emulator import poisoned, run_program
from tests.emulator.library import needs_compiler

pytestmark = [pytest.mark.slow, needs_compiler]

ATTENTIONS = {
    "ragged": Attention(heads=2, groups=2, q_len=130, kv_len=200, dim=64, v_dim=64, mask="bool"),
    "short": Attention(q_len=7, kv_len=9, dim=40, v_dim=24, mask="bool"),
    "bfloat16": Attention(dtype="bfloat16", heads=1, q_len=64, kv_len=192, dim=96, v_dim=96),
    "few-rows": Attention(heads=1, q_len=16, kv_len=1100, dim=128, v_dim=128),
    "one-row": Attention(heads=2, q_len=1, kv_len=600, dim=64, v_dim=64),
    "wide": Attention(heads=1, q_len=16, kv_len=100, dim=320, v_dim=288),
}


#: Decoding from one latent head (512 + 64): all heads' queries are rows of one product.
LATENT = Attention(heads=32, groups=32, q_len=1, kv_len=600, dim=576, v_dim=512)


def built(builder: Builder, cascade: Cascade, target: str) -> tuple[TileProgram, GpuProgram]:
    """The first schedule that fits."""
    derivation = derive(cascade)
    for schedule in candidates(cascade, derivation, gpu(target)):
        program = build(cascade, derivation, schedule)
        try:
            return program, builder.build(program, gpu(target))
        except Refused as refused:
            reason = refused
    raise reason


def check(builder: Builder, cascade: Cascade, target: str, inputs: dict[str, Array]) -> GpuProgram:
    """Build, run in the emulator, and apply the accuracy rule."""
    program, kernels = built(builder, cascade, target)
    arrays = {**inputs, **{tensor.name: poisoned(tensor.shape, tensor.dtype) for tensor in program.outputs}}
    run_program(kernels, arrays)
    exact, rounded = interpret(program, inputs, "float64"), interpret(program, inputs)
    for tensor in program.outputs:
        rule = "tf32" if (tensor.dtype, builder.fp32) == ("float32", "tf32") else tensor.dtype
        accuracy = compare(arrays[tensor.name], exact[tensor.name], rounded[tensor.name], rule)
        assert accuracy.passed, f"{tensor.name}: {accuracy}"
    return kernels


@pytest.mark.parametrize("target", ["h800", "a10"])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str, target: str, builder: Builder) -> None:
    cascade = ATTENTIONS[name].cascade()
    inputs = random_inputs(cascade)
    if "mask" in inputs:
        inputs["mask"][3] = False
    kernels = check(builder, cascade, target, inputs)
    assert len(kernels.kernels) == (2 if name in ("few-rows", "one-row") else 1)


@pytest.mark.parametrize(
    ("dtype", "target"),
    [("float16", "h800"), ("bfloat16", "a10"), ("float32", "a100-80g"), ("float32", "a10")],
    ids=str,
)
def test_latent_attention(dtype: str, target: str, builder: Builder) -> None:
    cascade = replace(LATENT, dtype=dtype).cascade()
    kernels = check(builder, cascade, target, random_inputs(cascade))
    alone = (dtype, target) == ("float32", "a10")  # its blocks share out columns instead of keys
    assert len(kernels.kernels) == (1 if alone else 2)
    assert all(kernel.resources.spills == 0 for kernel in kernels.kernels)


@pytest.mark.parametrize(("rows", "keys", "dim"), [(128, 256, 64), (130, 200, 72)])
def test_scores_of_float32_are_multiplied_by_groups_of_warps(rows: int, keys: int, dim: int, builder: Builder) -> None:
    cascade = Attention(dtype="float32", heads=1, q_len=rows, kv_len=keys, dim=dim, v_dim=64).cascade()
    [kernel] = check(builder, cascade, "h800", random_inputs(cascade)).kernels
    assert kernel.source.count("tl::wgmma_ss<tl::DataType::kTensorFloat32") == 1
    assert "tl::mma_sync<tl::DataType::kTensorFloat32" in kernel.source, "values lie the other way"
    assert kernel.resources.spills == 0


@pytest.mark.parametrize("length", [300, 40_000])
def test_probabilities_of_large_scaled_scores_sum_to_one(length: int, builder: Builder) -> None:
    """However the compiler contracts the scale and what is subtracted: in the sum as in the output."""
    cascade = softmax(8, length, "float32", 0.3)
    program, kernels = built(builder, cascade, "h800")
    scores = (np.random.default_rng(0).standard_normal((8, 1)) * 1e6).repeat(length, axis=1).astype("float32")
    arrays = {"x": scores, "y": poisoned(program.outputs[0].shape, "float32")}
    run_program(kernels, arrays)
    np.testing.assert_allclose(arrays["y"].sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(("rows", "length", "target"), [(1, 100_003, "a10"), (3, 65_536, "h800")])
def test_blocks_share_out_few_long_rows(rows: int, length: int, target: str, builder: Builder) -> None:
    cascade = softmax(rows, length, "float32")
    assert len(check(builder, cascade, target, random_inputs(cascade)).kernels) == 2


@pytest.mark.parametrize("rows_and_length", [(70, 200), (3, 70_000)])
def test_numbers_that_layers_differ_in_are_inputs(rows_and_length: tuple[int, int], builder: Builder) -> None:
    layers = {str(scale): canonicalise(softmax(*rows_and_length, "float32", scale)) for scale in (0.5, -0.25)}
    for form in lift(layers).values():
        (scale,) = form.literals
        inputs = random_inputs(form.cascade) | {"x1": np.float32(scale.value).reshape(())}
        check(builder, form.cascade, "h800", inputs)


@pytest.mark.parametrize(("weights", "kept"), [("int8", ""), ("float8_e4m3fn", ""), ("float8_e4m3fn", "float32")])
def test_quantised_product(weights: str, kept: str, builder: Builder) -> None:
    cascade = quantised_product(70, 200, 144, weights, 127.0 if weights == "int8" else 448.0, kept)
    inputs = random_inputs(cascade)
    if weights != "int8":  # a NaN is no integer
        inputs["x"][3, 5] = np.nan
    [kernel] = check(builder, cascade, "h800", inputs).kernels
    assert "tma_load" in kernel.source, "copies overlap with products"


@pytest.mark.parametrize("target", ["h800", "a10"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("scale", ["largest", "sqrt"])
def test_rows_folded_from_memory_meet_a_product(scale: str, dtype: str, target: str, builder: Builder) -> None:
    """As in norms before linear layers, and attention of slots; threads hold rows otherwise than in a product."""
    cascade = scaled_product(70, 200, 72, dtype, scale)
    check(builder, cascade, target, random_inputs(cascade))


@pytest.mark.parametrize("target", ["h800", "a10"])
@pytest.mark.parametrize(("weights", "shifted"), [("int8", False), ("int8", True), ("uint8", True)])
def test_products_of_integers_are_exact(weights: str, shifted: bool, target: str, builder: Builder) -> None:
    cascade = integer_product(40, 200, 72, weights, shifted)
    inputs = random_inputs(cascade)
    program, kernels = built(builder, cascade, target)
    arrays = {**inputs, "y": poisoned((40, 72), "float32")}
    run_program(kernels, arrays)
    np.testing.assert_array_equal(arrays["y"], interpret(program, inputs)["y"])


@pytest.mark.parametrize("left", ["int8", "uint8"])
def test_products_of_bytes_wait_for_their_tiles(left: str, builder: Builder) -> None:
    """Each of three stages is filled more than once."""
    cascade = byte_product(64, 640, 64, left)
    options = (("threads", 128), ("stages", 3))
    schedule = Schedule("single-segment", (("i", 64), ("n", 64), ("j", 128)), 1, "", options)
    made = build(cascade, derive(cascade), schedule)
    inputs = random_inputs(cascade)
    arrays = {**inputs, "y": poisoned((64, 64), "float32")}
    run_program(builder.build(made, gpu("h800")), arrays)
    np.testing.assert_array_equal(arrays["y"], interpret(made, inputs)["y"])


@pytest.mark.parametrize(("rows", "length"), [(5, 1000), (33, 7), (1, 40000)])
def test_rows(rows: int, length: int, builder: Builder) -> None:
    cascade = softmax(rows, length, "float16")
    inputs = random_inputs(cascade)
    inputs["x"][0, : length // 2] = -np.inf
    check(builder, cascade, "a100-80g", inputs)


@pytest.mark.parametrize("fp32", ["3xtf32", "ieee"])
def test_float32_products_as_accurate_as_float32(fp32: Fp32, toolchain: Toolchain) -> None:
    cascade = Attention(dtype="float32", heads=1, q_len=40, kv_len=50, dim=32, v_dim=32).cascade()
    with Builder(workers=1, cache=None, fp32=fp32) as builder:
        check(builder, cascade, "a10", random_inputs(cascade))
