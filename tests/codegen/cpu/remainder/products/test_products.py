"""Matrix products: what is recognised, how it is tiled and packed, and that the numbers are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("tvm")

import tvm
from tvm import relax, te
from tvm.script import relax as R

from redfuser.cascade.graph import Definition
from redfuser.cascade.reading.sizes import with_dims
from redfuser.codegen.cpu.machine import Machine
from redfuser.codegen.cpu.module import assemble
from redfuser.codegen.cpu.remainder.function import schedule_function
from redfuser.codegen.cpu.remainder.products.contraction import Contraction, recognise
from redfuser.codegen.cpu.remainder.products.packing import plan_packing
from redfuser.codegen.cpu.remainder.products.tiling import Tiling, choose_tiling
from redfuser.expr import Expr, Tensor, axis, index, load, op
from redfuser.signature import DimRange
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import legalised, run


def target(name: str = "cpu") -> CpuTarget:
    found = load_target(name)
    assert isinstance(found, CpuTarget)
    return found


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def variable(name: str, *shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, R.Tensor(shape, dtype))


def kinds(module: tvm.IRModule) -> set[str]:
    return set(assemble(module, [], target()).schedules.values())


# ------------------------------------------------------------------------------------------------ recognition

M, N, K = axis("m", 6), axis("n", 8), axis("k", 10)
LEFT, RIGHT, SUM = (
    Tensor("left", (6, 10), "float32"),
    Tensor("right", (10, 8), "float32"),
    Tensor("sum", (6, 8), "float32"),
)


def summed(body: Expr, combiner: str = "sum") -> Definition:
    return Definition(SUM, (M, N), (K,), combiner, body, "matmul")


def found(definition: Definition, final: Definition | None = None) -> Contraction | None:
    return recognise(definition, final or definition)


def test_a_product_with_an_epilogue_is_recognised() -> None:
    total = summed(op("mul", load(LEFT, M, K), load(RIGHT, K, N)))
    result = Tensor("result", (6, 8), "float32")
    bias = Tensor("bias", (8,), "float32")
    final = Definition(result, (M, N), (), "", op("add", load(SUM, M, N), load(bias, N)), "add")
    product = found(total, final)
    assert product is not None
    assert (product.row.extent, product.column.extent, product.depth) == (6, 8, 10)
    assert str(product.epilogue) == "(total[0] + bias[n])"
    assert product.contiguous


def test_a_transposed_factor_is_not_contiguous() -> None:
    across = Tensor("right", (8, 10), "float32")
    product = found(summed(op("mul", load(LEFT, M, K), load(across, N, K))))
    assert product is not None and not product.contiguous


def test_heads_are_outer_axes() -> None:
    head, a, b = axis("head", 3), Tensor("a", (3, 6, 10), "float32"), Tensor("b", (3, 10, 8), "float32")
    body = op("mul", load(a, head, M, K), load(b, head, K, N))
    product = found(Definition(Tensor("c", (3, 6, 8), "float32"), (head, M, N), (K,), "sum", body, "x"))
    assert product is not None and [a.extent for a in product.outer] == [3]


@pytest.mark.parametrize(
    "body, combiner",
    [
        (op("mul", load(LEFT, M, K), load(RIGHT, K, N)), "max"),
        (op("add", load(LEFT, M, K), load(RIGHT, K, N)), "sum"),
        (op("mul", load(LEFT, M, K), load(LEFT, M, K)), "sum"),
        (op("mul", load(SUM, M, N), load(RIGHT, K, N)), "sum"),
    ],
    ids=["not-a-sum", "not-a-product", "no-columns", "left-has-the-columns-too"],
)
def test_other_reductions_are_refused(body: Expr, combiner: str) -> None:
    assert found(summed(body, combiner)) is None


def test_a_sum_used_in_another_place_is_refused() -> None:
    total = summed(op("mul", load(LEFT, M, K), load(RIGHT, K, N)))
    result = Tensor("result", (6, 8), "float32")
    first = Definition(result, (M, N), (), "", op("sub", load(SUM, M, N), load(SUM, M, index(0))), "x")
    assert found(total, first) is None


def test_a_reshape_between_the_sum_and_its_result_moves_nothing() -> None:
    """As Gemm's result in the shape of the tokens; but a transposition moves, though it has as many elements."""
    total = summed(op("mul", load(LEFT, M, K), load(RIGHT, K, N)))
    outer, inner = axis("outer", 2), axis("inner", 3)
    result = Tensor("result", (2, 3, 8), "float32")
    row = op("add", op("mul", outer, index(3)), inner)
    product = found(total, Definition(result, (outer, inner, N), (), "", load(SUM, row, N), "reshape"))
    assert product is not None and (product.row.extent, product.column.extent) == (6, 8)
    turned = Definition(Tensor("turned", (8, 6), "float32"), (N, M), (), "", load(SUM, M, N), "transpose")
    assert found(total, turned) is None


# ------------------------------------------------------------------------------------------------ tiling, packing


def recognised(rows: int, columns: int, depth: int) -> Contraction:
    m, n, k = axis("m", rows), axis("n", columns), axis("k", depth)
    left, right = Tensor("left", (rows, depth), "float32"), Tensor("right", (depth, columns), "float32")
    body = op("mul", load(left, m, k), load(right, k, n))
    product = found(Definition(Tensor("c", (rows, columns), "float32"), (m, n), (k,), "sum", body, "x"))
    assert product is not None
    return product


@pytest.mark.parametrize("name", ["cpu-avx512", "cpu-avx2", "cpu-x86-64"])
@pytest.mark.parametrize("rows, columns", [(1, 4096), (128, 384), (7, 100), (1024, 1024), (3, 5)])
def test_tiles_fit_registers_and_matrix(name: str, rows: int, columns: int) -> None:
    tiling = choose_tiling(recognised(rows, columns, 64), target(name))
    assert (tiling.rows + 1) * tiling.vectors < Machine.of(target(name)).registers
    assert tiling.rows <= rows and tiling.width <= columns


def test_tasks_are_shared_out_evenly() -> None:
    tiling = choose_tiling(recognised(128, 64, 64), replace(target("cpu-avx512"), cores=4))
    assert tiling.panels(64) * tiling.blocks % 4 == 0


def test_rows_are_cut_into_blocks_that_fit_the_cache() -> None:
    assert choose_tiling(recognised(2048, 64, 1024), target("cpu-avx512")).blocks >= 8


def test_the_last_panel_ends_with_the_matrix() -> None:
    product = found(summed(op("mul", load(LEFT, M, K), load(RIGHT, K, N))))
    assert product is not None
    packing = plan_packing(product, Tiling(2, 1, 3, 1), "packed")
    assert packing.starts == (0, 3, 5)
    right = random(10, 8)
    packed = packing.pack({Tensor("right", (80,), "float32"): right.reshape(-1)}).reshape(3, 10, 3)
    np.testing.assert_array_equal(packed[2], right[:, 5:8])


def test_a_panel_that_is_read_once_is_cut_into_strips() -> None:
    """On AVX2, where it was measured; not where several tiles read it from the cache."""
    assert choose_tiling(recognised(1, 4096, 64), target("cpu-avx2")).strips
    assert not choose_tiling(recognised(128, 4096, 64), target("cpu-avx2")).strips
    assert not choose_tiling(recognised(1, 4096, 64), target("cpu-avx512")).strips


def test_strips_lie_one_behind_the_other() -> None:
    product = found(summed(op("mul", load(LEFT, M, K), load(RIGHT, K, N))))
    assert product is not None
    tiling = Tiling(1, 2, 3, strips=True)
    assert plan_packing(product, tiling, "packed").strip == tiling.width  # packed on the call
    packing = plan_packing(product, tiling, "packed", in_strips=True)
    right = random(10, 8)
    packed = packing.pack({Tensor("right", (80,), "float32"): right.reshape(-1)})
    assert packed.size == packing.tensor.size and packing.strip_size > 30
    strips = packed.reshape(2, 2, -1)[:, :, :30].reshape(2, 2, 10, 3)
    np.testing.assert_array_equal(strips[0, 1], right[:, 3:6])
    np.testing.assert_array_equal(strips[1, 0], right[:, 2:5])


@pytest.mark.parametrize("name", ["cpu-avx512", "cpu-avx2"])
@pytest.mark.parametrize("rows", [1, 2, 64], ids=["one-row", "one-tile", "many-tiles"])
def test_no_prefetch_leaves_the_packed_factor(name: str, rows: int) -> None:
    """Of an address that is mapped nowhere a processor looks for the page each time: eight times as long for all."""
    x = variable("x", rows, 64)
    module = legalised([x], lambda: relax.op.matmul(x, relax.const(random(64, 96))))
    (function,) = (f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    scheduled = schedule_function(function, (False, True), target(name))
    assert scheduled.packing is not None
    bounds, found = tvm.arith.Analyzer(), []

    def visit(node: object) -> None:
        if isinstance(node, tvm.tirx.For):
            bounds.bind(node.loop_var, tvm.ir.Range.from_min_extent(node.min, node.extent))
        if isinstance(node, tvm.tirx.BufferLoad) and node.buffer.name.startswith("packed"):
            found.append(node.indices[0])

    tvm.tirx.stmt_functor.pre_order_visit(scheduled.function.body, lambda node: visit(node) or True)
    limits = [bounds.const_int_bound(i).max_value for i in found if not isinstance(i, tvm.tirx.Ramp)]
    assert limits and max(limits) < scheduled.packing.tensor.size


# ------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("rows, columns, depth", [(1, 64, 32), (1, 5, 3), (2, 100, 7), (37, 70, 19), (13, 16, 1)])
@pytest.mark.parametrize("name", ["cpu", "cpu-avx2", "cpu-x86-64"])
def test_a_constant_factor_is_packed(name: str, rows: int, columns: int, depth: int) -> None:
    weight = random(depth, columns)
    x = variable("x", rows, depth)
    module = legalised([x], lambda: relax.op.matmul(x, relax.const(weight)))
    assembly = assemble(module, [], target(name))
    assert set(assembly.schedules.values()) == {"product"}
    a = random(rows, depth)
    np.testing.assert_allclose(run(assembly, a), a @ weight, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 3, 40])
@pytest.mark.parametrize("across", [False, True], ids=["in-place", "transposed"])
def test_a_variable_factor(rows: int, across: bool) -> None:
    x, y = variable("x", 2, rows, 24), variable("y", *((2, 50, 24) if across else (2, 24, 50)))
    axes = [0, 2, 1]
    module = legalised([x, y], lambda: relax.op.matmul(x, relax.op.permute_dims(y, axes) if across else y))
    a, b = random(2, rows, 24), random(*(int(n) for n in y.struct_info.shape))
    expected = a @ (b.transpose(axes) if across else b)
    np.testing.assert_allclose(run(assemble(module, [], target()), a, b), expected, rtol=1e-5, atol=1e-5)


def gelu(x: relax.Expr) -> relax.Expr:
    half, root = relax.const(0.5, "float32"), relax.const(2**0.5, "float32")
    one = relax.const(1.0, "float32")
    return relax.op.multiply(x, relax.op.multiply(half, relax.op.add(relax.op.erf(relax.op.divide(x, root)), one)))


def test_an_epilogue_is_applied_to_the_register_tile() -> None:
    from math import erf

    weight, bias = random(24, 40), random(40)
    x, residual = variable("x", 9, 24), variable("r", 9, 40)

    def body() -> relax.Expr:
        dense = relax.op.add(relax.op.matmul(x, relax.const(weight)), relax.const(bias))
        return relax.op.add(gelu(dense), residual)

    assembly = assemble(legalised([x, residual], body), [], target())
    assert set(assembly.schedules.values()) == {"product"}
    a, r = random(9, 24), random(9, 40)
    dense = a @ weight + bias
    expected = dense * 0.5 * (np.vectorize(erf)(dense / 2**0.5) + 1) + r
    np.testing.assert_allclose(run(assembly, a, r), expected, rtol=1e-5, atol=1e-5)


def test_an_epilogue_goes_on_behind_a_reshape() -> None:
    """Gemm's bias, a reshape, an activation, a residual: one kernel."""
    x, residual = variable("x", 42, 30), variable("residual", 2, 21, 40)
    weight, bias = random(30, 40), random(40)

    def body() -> relax.Expr:
        product = relax.op.add(relax.op.matmul(x, relax.const(weight)), relax.const(bias))
        tokens = relax.op.reshape(product, (2, 21, 40))
        return relax.op.add(relax.op.multiply(tokens, relax.op.tanh(tokens)), residual)

    assembly = assemble(legalised([x, residual], body), [], target())
    assert list(assembly.schedules.values()) == ["product"]
    inputs = random(42, 30), random(2, 21, 40)
    tokens = (inputs[0] @ weight + bias).reshape(2, 21, 40)
    np.testing.assert_allclose(run(assembly, *inputs), tokens * np.tanh(tokens) + inputs[1], rtol=1e-5, atol=1e-5)


def test_half_precision_is_summed_in_single() -> None:
    weight = random(512, 32, dtype="float16")
    x = variable("x", 4, 512, dtype="float16")
    assembly = assemble(legalised([x], lambda: relax.op.matmul(x, relax.const(weight))), [], target())
    assert set(assembly.schedules.values()) == {"product"}
    a = random(4, 512, dtype="float16")
    exact = a.astype("float64") @ weight.astype("float64")
    np.testing.assert_allclose(run(assembly, a), exact.astype("float16"), rtol=1e-3, atol=1e-2)


def test_one_kernel_serves_equal_products_of_different_weights() -> None:
    first, second = random(16, 16), random(16, 16) + 1
    x = variable("x", 5, 16)
    module = legalised([x], lambda: relax.op.matmul(relax.op.matmul(x, relax.const(first)), relax.const(second)))
    assembly = assemble(module, [], target())
    assert list(assembly.calls.values()) == [2]
    a = random(5, 16)
    np.testing.assert_allclose(run(assembly, a), a @ first @ second, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 24, 150])
def test_errors_do_not_grow_with_the_length_of_a_sum(rows: int) -> None:
    """As one sum, 16384 summands have a relative error of about 90 roundings; in parts, of some 16."""
    depth = 1 << 14
    weight, a = random(depth, 48), random(rows, depth)
    x = variable("x", rows, depth)
    exact = a.astype(float) @ weight.astype(float)
    got = run(assemble(legalised([x], lambda: relax.op.matmul(x, relax.const(weight))), [], target()), a)
    error = np.sqrt(np.mean((got - exact) ** 2)) / np.sqrt(np.mean(exact**2))
    assert error < 24 * 2.0**-25


@pytest.mark.parametrize("rows", [50, 64])
def test_long_sums_are_cut_into_parts(rows: int) -> None:
    """What a part leaves over is kept until the next one; the last part is shorter."""
    small = replace(target(), l2_kb=8)
    weight, bias = random(301, 40), random(40)
    x = variable("x", rows, 301)
    product = recognised(rows, 40, 301)
    assert choose_tiling(product, small).parts > 1
    module = legalised([x], lambda: relax.op.add(relax.op.matmul(x, relax.const(weight)), relax.const(bias)))
    a = random(rows, 301)
    np.testing.assert_allclose(run(assemble(module, [], small), a), a @ weight + bias, rtol=1e-4, atol=1e-4)


def test_a_far_apart_variable_factor_is_packed_on_every_call() -> None:
    x, y = variable("x", 3, 20, 24), variable("y", 3, 24, 600)
    assembly = assemble(legalised([x, y], lambda: relax.op.matmul(x, y)), [], target())
    assert "packed" in assembly.module.script()
    a, b = random(3, 20, 24), random(3, 24, 600)
    np.testing.assert_allclose(run(assembly, a, b), a @ b, rtol=1e-5, atol=1e-5)


def test_what_comes_before_a_product_may_have_open_sizes_too() -> None:
    """Sums of rows, kept until the product of an open number of them is scaled."""
    rows, w = tvm.tirx.Var("n", "int64"), random(24, 32)

    def scaled(a: te.Tensor, b: te.Tensor) -> te.Tensor:
        k, m = te.reduce_axis((0, 24), "k"), te.reduce_axis((0, 24), "m")
        total = te.compute((a.shape[0],), lambda i: te.sum(a[i, m], axis=m), name="total")
        product = te.compute((a.shape[0], 32), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
        return te.compute(product.shape, lambda i, j: total[i] * product[i, j], name="scaled")

    x = relax.Var("x", relax.TensorStructInfo((rows, 24), "float32"))
    module = legalised([x], lambda: relax.BlockBuilder.current().emit_te(scaled, x, relax.const(w)))
    assembly = assemble(with_dims(module, {"n": DimRange(1, 300)}), [], target())
    assert set(assembly.schedules.values()) == {"product"}
    for n in (1, 5, 130):
        x = random(n, 24)
        expected = (x.astype(np.float64) @ w) * x.sum(1, keepdims=True)
        np.testing.assert_allclose(run(assembly, x), expected, rtol=1e-4, atol=1e-4)
