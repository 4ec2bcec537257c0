"""Kernels that take open dimensions, run by the emulator at many sizes, against the interpreter in float64."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from redfuser.accuracy import compare
from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu import Builder, GpuProgram, Refused
from redfuser.codegen.gpu.schedule import candidates
from redfuser.codegen.gpu.value import Argument, Count, GpuKernel
from redfuser.expr.binding import at_sizes
from redfuser.extents import Dim, size_of
from redfuser.tile import Schedule, TileProgram, build, interpret, verify
from redfuser.tile.concrete import program_at, with_derived
from tests.codegen.gpu.programs import Attention, gpu, random_inputs, softmax
from tests.emulator.emulator import poisoned, run_program
from tests.emulator.library import needs_compiler
from tests.selections import selection

pytestmark = [pytest.mark.slow, needs_compiler]

BATCH, LENGTH = size_of(Dim("batch", 1, 4096)), size_of(Dim("length", 1, 512))
NEW, PAST, MANY = size_of(Dim("new", 1, 2048)), size_of(Dim("past", 1, 32768)), size_of(Dim("batch", 1, 65536))
FEW, LONG = size_of(Dim("batch", 1, 8)), size_of(Dim("length", 1, 65536))

#: One, tiles and their neighbours, several tiles.
LENGTHS = (1, 63, 64, 65, 127, 128, 129, 300)

CASCADES = {
    "softmax-of-open-rows": softmax(BATCH, 300, "float16"),
    "softmax-of-an-open-axis": softmax(BATCH, LENGTH, "float16"),
    "softmax-in-float32": softmax(BATCH, LENGTH, "float32"),
    "attention": Attention(heads=2, groups=2, q_len=LENGTH, kv_len=LENGTH, mask="bool").cascade(),
    "attention-of-open-rows": Attention(q_len=LENGTH, kv_len=200, mask="bool").cascade(),
    "attention-in-float32": Attention("float32", q_len=LENGTH, kv_len=LENGTH, dim=32, v_dim=32, mask="bool").cascade(),
}


#: What positions hide is skipped: two kernels look first.
MASKED = {
    "causal": Attention(q_len=LENGTH, kv_len=LENGTH, mask="causal").cascade(),
    "window": Attention("bfloat16", heads=1, q_len=LENGTH, kv_len=LENGTH, mask="window").cascade(),
}

#: Few rows over a long axis, which blocks share out.
SHARED = {
    "decode": Attention(q_len=1, kv_len=LONG).cascade(),
    "decode-in-bfloat16": Attention("bfloat16", heads=4, groups=2, q_len=1, kv_len=LONG).cascade(),
    "few-queries": Attention(heads=2, q_len=16, kv_len=LONG, mask="bool").cascade(),
    "few-queries-in-float32": Attention("float32", heads=1, q_len=16, kv_len=LONG, dim=32, v_dim=32).cascade(),
    "few-queries-causal": Attention(heads=1, q_len=20, kv_len=LONG, mask="causal").cascade(),
    "latent": Attention(heads=16, groups=16, q_len=1, kv_len=LONG, dim=160, v_dim=128).cascade(),
    "softmax": softmax(2, LONG, "float32"),
    "selection": selection(2, LONG, 4, "float32"),
}

#: One, fewer tiles than there are segments, and several tiles in a segment.
SHARED_LENGTHS = (1, 65, 300, 2000)


def built(builder: Builder, cascade: Cascade, target: str) -> tuple[TileProgram, GpuProgram]:
    """The first schedule that fits, for every size."""
    derivation = derive(cascade)
    for schedule in candidates(cascade, derivation, gpu(target)):
        program = build(cascade, derivation, schedule)
        verify(program)
        try:
            return program, builder.build(program, gpu(target))
        except Refused as refused:
            reason = refused
    raise reason


def kernels_at(program: GpuProgram, sizes: Mapping[str, int]) -> GpuProgram:
    """The program as the launcher launches it for these sizes."""

    def number(count: Count) -> int:
        return count if isinstance(count, int) else int(eval(count.replace("/", "//"), {}, dict(sizes)))

    def argument(given: Argument) -> Argument:
        described = given.tensor_map
        if described is None:
            return given
        shape, strides = (tuple(map(number, counts)) for counts in (described.shape, described.strides))
        return replace(given, tensor_map=replace(described, shape=shape, strides=strides))

    def kernel(given: GpuKernel) -> GpuKernel:
        return replace(given, grid=tuple(map(number, given.grid)), arguments=tuple(map(argument, given.arguments)))

    launched = (given for given in program.kernels if all(map(number, given.grid)))  # The launcher passes over others.
    return replace(at_sizes(program, sizes), kernels=tuple(map(kernel, launched)))


@pytest.mark.parametrize("target", ["h800", "a10"])
@pytest.mark.parametrize("name", CASCADES)
def test_one_kernel_is_right_at_every_size(name: str, target: str, builder: Builder) -> None:
    program, kernels = built(builder, CASCADES[name], target)
    assert len(kernels.kernels) == 1 + (program.schedule.segments > 1) and kernels.dims, "the same for all sizes"
    for length in LENGTHS:
        check_at(CASCADES[name], program, kernels, {"batch": 3, "length": length})


@pytest.mark.parametrize("target", ["h800", "a10"])
@pytest.mark.parametrize("name", MASKED)
def test_tiles_that_positions_hide_are_skipped_and_change_nothing(name: str, target: str, builder: Builder) -> None:
    program, kernels = built(builder, MASKED[name], target)
    assert "skip-hidden" in dict(program.schedule.options)
    assert len(kernels.kernels) == 3 + (program.schedule.segments > 1)
    for length in (1, 65, 300):
        check_at(MASKED[name], program, kernels, {"length": length})
    check_at(MASKED[name], program, kernels, {"length": 200}, spoil=np.nan)


def check_at(
    cascade: Cascade, program: TileProgram, kernels: GpuProgram, sizes: Mapping[str, int], spoil: float | None = None
) -> None:
    """Run in the emulator for some sizes, and apply the accuracy rule; ``spoil`` is put into the last value."""
    known = program_at(program, sizes)
    inputs = random_inputs(at_sizes(cascade, sizes), sum(sizes.values()))
    if spoil is not None:
        inputs["v"][..., -1, 5] = spoil
    sizes = with_derived(sizes, program.derived)
    outputs = {tensor.name: poisoned(tensor.shape, tensor.dtype) for tensor in known.outputs}
    given = {dim.name: np.array(sizes[dim.name], "int32") for dim in kernels.dims}
    run_program(kernels_at(kernels, sizes), {**inputs, **outputs, **given})
    exact, rounded = interpret(known, inputs, "float64"), interpret(known, inputs)
    for tensor in known.outputs:
        rule = "tf32" if tensor.dtype == "float32" else tensor.dtype
        accuracy = compare(outputs[tensor.name], exact[tensor.name], rounded[tensor.name], rule)
        assert accuracy.passed, f"{tensor.name} at {dict(sizes)}: {accuracy}"


@pytest.mark.parametrize("target", ["h800", "a10"])
@pytest.mark.parametrize("name", SHARED)
def test_blocks_share_out_a_long_axis_of_open_size(name: str, target: str, builder: Builder) -> None:
    program, kernels = built(builder, SHARED[name], target)
    assert program.schedule.strategy == "multi-segment" and program.schedule.segments > 2
    places = max((r.rank.extent for r in SHARED[name].reductions if r.rank is not None), default=1)
    for length in (n for n in SHARED_LENGTHS if n >= places):
        check_at(SHARED[name], program, kernels, {"batch": 2, "length": length})


#: A decoder's prompt and past, both of any length, for some sequences.
DECODERS = {
    "decoder": Attention(q_len=NEW, kv_len=PAST + NEW, mask="bool", batch=FEW),
    "decoder-in-float32": Attention("float32", q_len=NEW, kv_len=PAST + NEW, dim=32, v_dim=32),
    "decoder-of-wide-heads": Attention("bfloat16", groups=2, q_len=NEW, kv_len=PAST + NEW, dim=160, v_dim=288),
    "one-word": Attention(q_len=1, kv_len=PAST + 1, batch=MANY),
}


@pytest.mark.parametrize(
    ("name", "target"),
    [*((name, "h800") for name in DECODERS), ("decoder", "a10"), ("decoder-in-float32", "a10")],
)
def test_the_call_decides_how_many_blocks_share_out_the_axis(name: str, target: str, builder: Builder) -> None:
    cascade = DECODERS[name].cascade()
    program, kernels = built(builder, cascade, target)
    assert [str(item.dim) for item in kernels.derived] == ["segments"] and len(kernels.kernels) == 2
    for new, past, batch in ((1, 500, 2), (70, 130, 1)):
        check_at(cascade, program, kernels, {"new": new, "past": past, "batch": batch})
    check_at(cascade, program, kernels, {"new": 3, "past": 90, "batch": 1, "segments": 1})


#: Decoders whose masks compare positions: what they hide is skipped where the call's sizes make looking worth while.
MASKED_DECODERS = {
    "causal": Attention(q_len=NEW, kv_len=PAST + NEW, mask="causal", past=PAST, batch=FEW).cascade(),
    "finite": Attention(heads=1, q_len=NEW, kv_len=PAST + NEW, mask="finite", past=PAST).cascade(),
    "window": Attention("bfloat16", groups=2, q_len=NEW, kv_len=PAST + NEW, mask="window", past=PAST).cascade(),
}


@pytest.mark.parametrize("target", ["h800", "a10"])
@pytest.mark.parametrize("name", MASKED_DECODERS)
def test_a_decoder_skips_what_its_mask_hides_where_that_is_worth_looking(
    name: str, target: str, builder: Builder
) -> None:
    cascade = MASKED_DECODERS[name]
    program, kernels = built(builder, cascade, target)
    assert [str(item.dim) for item in kernels.derived] == ["segments", "looks"] and len(kernels.kernels) == 4
    for new, past, worth in ((1, 500, 0), (70, 130, 0), (300, 20, 1)):
        sizes = {"new": new, "past": past, "batch": 2}
        assert with_derived(sizes, program.derived)["looks"] == worth
        check_at(cascade, program, kernels, sizes)
    assert with_derived({"new": 260, "past": 600, "batch": 1}, program.derived)["looks"] == (name == "window")
    check_at(cascade, program, kernels, {"new": 70, "past": 130, "batch": 1, "looks": 1, "segments": 3})
    check_at(cascade, program, kernels, {"new": 300, "past": 20, "batch": 1}, spoil=np.nan)


def test_copies_by_tensor_map_follow_the_sizes(builder: Builder) -> None:
    cascade = Attention(heads=2, groups=2, q_len=LENGTH, kv_len=LENGTH, mask="bool", batch=FEW).cascade()
    schedule = Schedule("single-segment", (("i", 128), ("j", 128)), 1, "", (("threads", 256), ("stages", 2)))
    [kernel] = builder.build(build(cascade, derive(cascade), schedule), gpu("h800")).kernels
    maps = {a.tensor: a.tensor_map for a in kernel.arguments if a.tensor_map is not None}
    assert maps.keys() == {"q", "k", "v"}, "rows of the mask begin anywhere"
    assert maps["k"].shape == (64, "length", 1, "batch") and kernel.grid == ("((length + 127) / 128)", 2, "batch")
