"""Selections as kernels, run on the CPU by the emulator: ties, NaN, infinities, tails, merges, every type."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.accuracy import compare
from redfuser.codegen.gpu import Builder, GpuProgram
from redfuser.expr.evaluate import numpy_dtype
from redfuser.tile import TileProgram, interpret
from tests.codegen.gpu.programs import Array, gpu, program
from tests.emulator.emulator import poisoned, run_program
from tests.emulator.library import needs_compiler
from tests.selections import hard_rows, ordered, routing, selection

pytestmark = [pytest.mark.slow, needs_compiler]

ROUTINGS = {
    "two-rows-a-warp": program(routing(37, 64, 6), "resident", i=8, l=64),
    "smallest": program(routing(37, 64, 6, largest=False), "resident", i=8, l=64),
    "ragged": program(routing(37, 60, 4), "resident", i=8, l=60),
    "one": program(routing(37, 128, 1), "resident", i=4, l=128),
    "all-of-few": program(routing(9, 8, 8), "resident", i=8, l=8),
    "streamed": program(routing(9, 60, 5), l=16, i=4, options={"stages": 0}),
    "one-streamed": program(routing(9, 60, 1), l=16, i=4, options={"stages": 0}),
    "half": program(routing(19, 64, 2, "float16"), "resident", i=8, l=64),
}


def run(builder: Builder, tiles: TileProgram, x: Array, target: str) -> tuple[GpuProgram, dict[str, Array]]:
    """Build a program of one input and run it."""
    kernels = builder.build(tiles, gpu(target))
    arrays = {"x": x, **{tensor.name: poisoned(tensor.shape, tensor.dtype) for tensor in tiles.outputs}}
    run_program(kernels, arrays)
    assert all(kernel.resources.spills == 0 for kernel in kernels.kernels)
    return kernels, arrays


@pytest.mark.parametrize("target", ["a10", "h800"])
@pytest.mark.parametrize("name", ROUTINGS)
def test_routing(name: str, target: str, builder: Builder) -> None:
    tiles = ROUTINGS[name]
    [tensor] = tiles.inputs
    x = hard_rows(*tensor.shape).astype(numpy_dtype(tensor.dtype))
    _, found = run(builder, tiles, x, target)
    exact, rounded = interpret(tiles, {"x": x}, "float64"), interpret(tiles, {"x": x})
    np.testing.assert_array_equal(found["where"], rounded["where"])
    accuracy = compare(found["y"], exact["y"], rounded["y"], "float32")
    assert accuracy.passed, accuracy


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int8", "bool"])
def test_values_of_every_type_in_the_order_of_a_stable_sort(dtype: str, largest: bool, builder: Builder) -> None:
    x = hard_rows(9, 23)
    if "float" not in dtype:
        x = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 9, x.shape) - 4 * (dtype != "bool")
    x = x.astype(numpy_dtype(dtype))
    if dtype == "int32":
        x[0, 3], x[0, 5], x[1] = np.iinfo(np.int32).min, np.iinfo(np.int32).max, np.iinfo(np.int32).min
    tiles = program(selection(9, 23, 6, dtype, largest), "resident", i=4, l=23)
    _, found = run(builder, tiles, x, "a100-80g")
    where = ordered(x, 6, largest)
    np.testing.assert_array_equal(found["where"], where)
    expected = np.take_along_axis(x, where, axis=1)
    np.testing.assert_array_equal(found["y"].astype(np.float64), expected.astype(np.float64))


def test_long_rows_and_long_lists(builder: Builder) -> None:
    x = np.random.default_rng(2).integers(0, 500, (2, 4001)).astype(np.float32)
    tiles = program(selection(2, 4001, 20, "float32"), "multi-segment", 2, l=512, options={"stages": 0})
    kernels, found = run(builder, tiles, x, "a10")
    assert len(kernels.kernels) == 2
    np.testing.assert_array_equal(found["where"], ordered(x, 20))
