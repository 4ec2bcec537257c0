"""Lone matrix products: read from PrimFuncs, scheduled, put in their places, and right in the emulator."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("tvm")

from tvm import relax, tirx

from redfuser.accuracy import compare
from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.cascade.precision.widen import widen
from redfuser.codegen.assembly import fuse_elementwise
from redfuser.codegen.backend import Kernel
from redfuser.codegen.gpu import Builder
from redfuser.codegen.gpu.product_schedule import product_schedules, product_shape
from redfuser.codegen.gpu.remainder.products import find_products, read_product
from redfuser.codegen.gpu.tools.toolchain import Toolchain
from redfuser.extents import Dim, size_of
from redfuser.frontend.converters.bytes import integer_product
from redfuser.options import Fp32
from redfuser.tile import Schedule, build, interpret, verify
from redfuser.tile.ir import TileProgram
from tests.codegen.gpu.programs import gpu, random_inputs
from tests.codegen.gpu.test_remainder import last_function, module, var
from tests.emulator.emulator import poisoned, run_program
from tests.emulator.library import needs_compiler

Shape = tuple[int, ...]


def layer(x: relax.Var, w: relax.Var, bias: relax.Var, rest: relax.Var) -> relax.Expr:
    """A product with a bias, an activation and a residual."""
    shifted = relax.op.add(relax.op.matmul(x, w), bias)
    return relax.op.add(relax.op.multiply(shifted, relax.op.sigmoid(shifted)), rest)


def cascade(rows: Shape, inner: int, columns: int, dtype: str) -> Cascade:
    """A layer as the back end reads it, computed in float32."""
    given = [
        *(var("x", (*rows, inner), dtype), var("w", (inner, columns), dtype)),
        *(var("b", (columns,), dtype), var("r", (*rows, columns), dtype)),
    ]
    found = read_product(last_function(given, lambda: layer(*given)))
    assert found is not None
    return widen(found.cascade)


def test_open_rows_that_lie_one_after_another_are_one_axis() -> None:
    sizes = {name: size_of(Dim(name, 1, 512)) for name in ("batch", "length")}
    variables = {name: tirx.Var(name, "int64") for name in sizes}
    x = relax.Var("x", relax.TensorStructInfo([*variables.values(), 48], "float16"))
    w = var("w", (48, 32), "float16")
    function = last_function([x, w], lambda: relax.op.matmul(x, w))
    own = [extent for extent in function.buffer_map[function.params[0]].shape if isinstance(extent, tirx.Var)]
    found = read_product(function, dict(zip(own, sizes.values(), strict=True)))
    rows = sizes["batch"] * sizes["length"]
    assert found is not None and found.cascade.rows[0].extent == rows
    assert [tensor.shape for tensor in found.cascade.inputs] == [(rows, 48), (48, 32)]
    assert read_product(function) is None, "sizes that nobody tells"


def test_a_product_is_read_with_what_follows_it() -> None:
    found = cascade((2, 24), 48, 32, "float16")
    shape = product_shape(found)
    assert shape is not None and (shape.rows.extent, shape.columns.extent, shape.blocks, shape.item) == (48, 32, 1, 2)
    assert [tensor.shape for tensor in found.inputs] == [(48, 48), (48, 32), (32,), (48, 32)]
    assert found.outputs[0].tensor.dtype == "float16"


def read(left: Shape, right: Shape, residual: Shape) -> Cascade:
    x, w, rest = var("x", left), var("w", right), var("r", residual)
    found = read_product(last_function([x, w, rest], lambda: relax.op.add(relax.op.matmul(x, w), rest)))
    assert found is not None
    return found.cascade


@pytest.mark.parametrize(
    ("left", "right", "residual", "rows", "blocks"),
    [
        ((3, 8, 16), (16, 32), (3, 8, 32), 24, 1),
        ((3, 5, 8, 16), (16, 32), (32,), 120, 1),
        ((3, 8, 16), (16, 32), (3, 1, 32), 8, 3),  # a batch's own bias
        ((3, 8, 16), (16, 32), (8, 32), 8, 3),  # the same for every batch
        ((3, 8, 16), (3, 16, 32), (3, 8, 32), 8, 3),  # a batch's own weight
        ((3, 5, 8, 16), (3, 1, 16, 32), (3, 5, 8, 32), 40, 3),
    ],
    ids=str,
)
def test_rows_that_lie_one_after_another_are_one_axis(
    left: Shape, right: Shape, residual: Shape, rows: int, blocks: int
) -> None:
    found = read(left, right, residual)
    shape = product_shape(found)
    assert shape is not None and (shape.rows.extent, shape.blocks) == (rows, blocks)
    found.verify()
    x, w, rest = (np.random.default_rng(0).standard_normal(s).astype("float32") for s in (left, right, residual))
    given = dict(zip(found.inputs, (x, w, rest), strict=True))
    inputs = {tensor.name: array.reshape(tensor.shape) for tensor, array in given.items()}
    program = build(found, derive(found), Schedule("single-segment"))
    verify(program)
    got = interpret(program, inputs, "float64")[found.outputs[0].tensor.name]
    np.testing.assert_allclose(got.reshape((x @ w + rest).shape), x @ w + rest, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("body", "shapes", "dtype"),
    [
        (lambda x, w: relax.op.matmul(x, w), ((1, 64), (64, 32)), "float32"),  # a vector
        (lambda x, w: relax.op.matmul(x, w), ((8, 64), (64, 32)), "float64"),
        (lambda x, w: relax.op.matmul(x, w), ((8, 64), (64, 32)), "int64"),
        (lambda x, w: relax.op.sum(relax.op.multiply(x, w), axis=[1]), ((8, 64), (8, 64)), "float32"),
        (lambda x, w: relax.op.nn.softmax(relax.op.add(x, w)), ((8, 64), (8, 64)), "float32"),
    ],
)
def test_anything_else_is_left_to_tvm(body: Callable[..., relax.Expr], shapes: tuple[Shape, Shape], dtype: str) -> None:
    x, w = (var(name, shape, dtype) for name, shape in zip("xw", shapes, strict=True))
    assert read_product(last_function([x, w], lambda: body(x, w))) is None


@pytest.mark.parametrize("target", ["a10", "a100-80g", "h800"])
def test_schedules_fill_the_device_and_fit_it(target: str) -> None:
    device = gpu(target)
    small, large = (product_shape(cascade((n,), k, n, "float16")) for n, k in ((128, 4096), (4096, 512)))
    assert small is not None and large is not None
    for shape in (small, large):
        for schedule in product_schedules(shape, True, device):
            tiles, stages = dict(schedule.tiles), dict(schedule.options)["stages"]
            rows, columns, over = (tiles[axis.name] for axis in (shape.rows, shape.columns, shape.over))
            assert stages * over * (rows + columns) * 2 <= device.shared_block_kb * 1024
    assert product_schedules(small, True, device)[0].segments > 1, "four blocks would leave the device idle"
    assert all(schedule.segments == 1 for schedule in product_schedules(small, False, device))
    assert product_schedules(large, True, device)[0].segments == 1


def test_every_call_is_found_with_its_arguments_in_the_kernel_s_order() -> None:
    x, w, bias = var("x", (16, 32)), var("w", (32, 32)), var("b", (32,))

    def body() -> relax.Expr:
        once = relax.op.add(bias, relax.op.matmul(x, w))
        return relax.op.add(bias, relax.op.matmul(once, w))

    asked: list[str] = []

    def make(found: Cascade, name: str) -> Kernel:
        asked.append(name)
        program = TileProgram(name, found.inputs, tuple(o.tensor for o in found.outputs), (), ())
        return Kernel(program, None, {}, {})

    fused = fuse_elementwise(module([x, w, bias], body))
    calls = find_products(fused, make)
    assert asked == ["product_0"] and len(calls) == 2
    for call in calls:
        shapes = [tuple(int(extent) for extent in value.struct_info.shape) for value in call.inputs]
        assert shapes == [tensor.shape for tensor in call.product.kernel.program.inputs]
    assert find_products(fused, lambda found, name: None) == ()


def integers(left: str, right: str) -> Cascade:
    """MatMulInteger as the frontend lowers it, with a zero point of the left side, and its result scaled."""
    given = [var("x", (70, 200), left), var("w", (200, 72), right), var("z", (), left), var("s", (72,))]

    def body() -> relax.Expr:
        x, w, zero, scale = given
        sums = integer_product(relax.BlockBuilder.current(), x, zero, w, None)
        return relax.op.multiply(relax.op.astype(sums, "float32"), scale)

    found = read_product(last_function(given, body))
    assert found is not None
    return widen(found.cascade)


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("target", ["a10", "h800"])
@pytest.mark.parametrize(("left", "right"), [("int8", "int8"), ("uint8", "uint8")])
def test_products_of_bytes_are_exact_in_the_emulator(left: str, right: str, target: str, builder: Builder) -> None:
    found = integers(left, right)
    shape, derivation = product_shape(found), derive(found)
    assert shape is not None and shape.item == 1
    program = build(found, derivation, product_schedules(shape, derivation.incremental, gpu(target))[0], "product_0")
    inputs = random_inputs(found)
    arrays = {**inputs, **{tensor.name: poisoned(tensor.shape, tensor.dtype) for tensor in program.outputs}}
    run_program(builder.build(program, gpu(target)), arrays)
    for name, expected in interpret(program, inputs).items():
        np.testing.assert_array_equal(arrays[name], expected)


CASES: dict[str, tuple[str, Shape, int, int, str, Fp32]] = {
    "whole": ("h800", (64,), 64, 64, "float16", "tf32"),
    "ragged": ("h800", (2, 70), 200, 72, "bfloat16", "tf32"),
    "in-pieces": ("h800", (24,), 1024, 96, "float16", "tf32"),
    "ampere": ("a10", (130,), 136, 200, "float16", "tf32"),
    "single": ("a100-80g", (48,), 100, 64, "float32", "tf32"),
    "split": ("h800", (32,), 64, 40, "float32", "3xtf32"),
    "plain": ("a10", (16,), 64, 40, "float32", "ieee"),
}


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_products_in_the_emulator(name: str, toolchain: Toolchain) -> None:
    target, rows, inner, columns, dtype, fp32 = CASES[name]
    found = cascade(rows, inner, columns, dtype)
    shape, derivation = product_shape(found), derive(found)
    assert shape is not None
    program = build(found, derivation, product_schedules(shape, derivation.incremental, gpu(target))[0], "product_0")
    verify(program)
    with Builder(workers=1, cache=None, fp32=fp32) as builder:
        code = builder.build(program, gpu(target))
    inputs = random_inputs(found)
    inputs["x0"][(0,) * len(rows)] = np.nan
    arrays = {**inputs, **{tensor.name: poisoned(tensor.shape, tensor.dtype) for tensor in program.outputs}}
    run_program(code, arrays)
    exact, rounded = interpret(program, inputs, "float64"), interpret(program, inputs)
    for tensor in program.outputs:
        rule = "tf32" if (dtype, fp32) == ("float32", "tf32") else dtype
        accuracy = compare(arrays[tensor.name], exact[tensor.name], rounded[tensor.name], rule)
        assert accuracy.passed, f"{tensor.name}: {accuracy}"
