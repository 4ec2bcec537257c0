"""Kernels that take open dimensions, in every type that GPUs compute with: in the emulator, against float64."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.accuracy import RULES, compare
from redfuser.cascade.model import Cascade
from redfuser.codegen.gpu import Builder, GpuProgram
from redfuser.expr.binding import at_sizes
from redfuser.extents import Dim, size_of
from redfuser.tile import TileProgram, interpret
from redfuser.tile.concrete import program_at, with_derived
from tests.codegen.gpu.programs import Attention, integer_product, quantised_product, random_inputs, softmax
from tests.codegen.gpu.test_open_numerics import built, kernels_at
from tests.emulator.emulator import poisoned, run_program
from tests.emulator.library import needs_compiler
from tests.selections import hard_rows, routing, selection

pytestmark = [pytest.mark.slow, needs_compiler]

ROWS, LENGTH = size_of(Dim("rows", 1, 4096)), size_of(Dim("length", 1, 512))

CASES: dict[str, tuple[Cascade, str]] = {
    "bfloat16-softmax": (softmax(ROWS, LENGTH, "bfloat16"), "h800"),
    "bfloat16-attention-hopper": (Attention("bfloat16", q_len=LENGTH, kv_len=LENGTH, mask="bool").cascade(), "h800"),
    "bfloat16-attention-ampere": (Attention("bfloat16", groups=2, q_len=ROWS, kv_len=LENGTH).cascade(), "a10"),
    "routing-hopper": (routing(ROWS, 64, 6), "h800"),
    "routing-ampere": (routing(ROWS, 160, 4, "float16"), "a10"),
    "best-expert": (routing(ROWS, 128, 1), "a10"),
    "selection-of-an-open-axis": (selection(3, LENGTH, 2, "float32"), "h800"),
    "int8-hopper": (integer_product(ROWS, 200, 72), "h800"),
    "int8-ampere": (integer_product(ROWS, 200, 72, "uint8", shifted=True), "a10"),
    "int8-scaled": (quantised_product(ROWS, 200, 144, "int8", 127.0), "h800"),
    "fp8-hopper": (quantised_product(ROWS, 200, 144, "float8_e4m3fn", 448.0), "h800"),
    "fp8-ada": (quantised_product(ROWS, 200, 144, "float8_e4m3fn", 448.0), "l40s"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_kernel_is_right_at_every_size(name: str, builder: Builder) -> None:
    cascade, target = CASES[name]
    program, kernels = built(builder, cascade, target)
    assert kernels.dims and all(kernel.resources.spills == 0 for kernel in kernels.kernels)
    for rows, length in ((1, 2), (65, 130)):
        check_at(cascade, program, kernels, {"rows": rows, "length": length})


def check_at(cascade: Cascade, program: TileProgram, kernels: GpuProgram, sizes: dict[str, int]) -> None:
    """Run in the emulator for some sizes: integers are equal, other numbers meet the accuracy rule."""
    known = program_at(program, sizes)
    inputs = random_inputs(at_sizes(cascade, sizes))
    sizes = with_derived(sizes, program.derived)
    if cascade.name.startswith("routing"):
        inputs["x"] = hard_rows(*inputs["x"].shape).astype(inputs["x"].dtype)
    outputs = {tensor.name: poisoned(tensor.shape, tensor.dtype) for tensor in known.outputs}
    given = {dim.name: np.array(sizes[dim.name], "int32") for dim in kernels.dims}
    run_program(kernels_at(kernels, sizes), {**inputs, **outputs, **given})
    exact, rounded = interpret(known, inputs, "float64"), interpret(known, inputs)
    for tensor in known.outputs:
        if tensor.dtype not in RULES:
            np.testing.assert_array_equal(outputs[tensor.name], rounded[tensor.name])
            continue
        accuracy = compare(outputs[tensor.name], exact[tensor.name], rounded[tensor.name], tensor.dtype)
        assert accuracy.passed, f"{tensor.name} at {sizes}: {accuracy}"
