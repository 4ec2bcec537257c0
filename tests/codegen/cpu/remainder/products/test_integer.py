"""Products of quantised matrices in whole models: zero points, signs, sizes, on every kind of processor."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax, te, tirx

from models.builder import Builder
from redfuser.api import compile_to_folder
from redfuser.artifact.load import load
from redfuser.cascade.reading.sizes import with_dims
from redfuser.codegen.cpu.module import Assembly, assemble
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.signature import DimRange
from tests.codegen.cpu.build import able, legalised, opened, run

SHAPES = [(37, 100, 50), (64, 128, 96), (3, 64, 33), (300, 64, 64), (1, 128, 96), (1, 100, 33)]


def some(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    return np.random.default_rng(sum(shape)).integers(limits.min, limits.max + 1, shape, dtype=dtype)


def product(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, a.shape[-1]), "k")
    return te.compute(
        (a.shape[0], b.shape[1]),
        lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k),
        name="matmul",
    )


@pytest.mark.parametrize("depth", [13, 17, 1000, 1030])
def test_pairs_end_with_the_depth(depth: int) -> None:
    """In one part and in several, the last of which isn't filled."""
    test_bytes_with_a_constant_weight("cpu-avx2", ("uint8", "int8"), (260, depth, 16))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("signs", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("name", ["cpu", "cpu-avx512", "cpu-avx2"])
def test_bytes_with_a_constant_weight(name: str, signs: tuple[str, str], shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    x, w = some((rows, depth), signs[0]), some((depth, columns), signs[1])
    variable = relax.Var("x", relax.TensorStructInfo(x.shape, x.dtype.name))

    def body() -> relax.Expr:
        builder = relax.BlockBuilder.current()
        return builder.emit_te(product, variable, relax.const(w))

    assembly = assemble(legalised([variable], body), [], able(name))
    assert list(assembly.schedules.values()) == ["product"]
    np.testing.assert_array_equal(run(assembly, x), x.astype(np.int32) @ w.astype(np.int32))


@pytest.mark.parametrize(("rows", "blocks"), [(200, 13), (40, 3), (4000, 16)])
def test_few_columns_are_work_for_all_cores(rows: int, blocks: int) -> None:
    x = relax.Var("x", relax.TensorStructInfo((rows, 64), "uint8"))
    module = legalised(
        [x], lambda: relax.BlockBuilder.current().emit_te(product, x, relax.const(some((64, 64), "int8")))
    )
    target = replace(able("cpu-avx2"), cores=2)
    (function,) = [f for f in assemble(module, [], target).module.functions.values() if isinstance(f, tirx.PrimFunc)]
    assert f"in T.parallel({blocks})" in function.script()


@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_with_a_weight_known_on_the_call(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    x, w = some((rows, depth), "int8"), some((depth, columns), "int8")
    variables = [relax.Var(n, relax.TensorStructInfo(v.shape, "int8")) for n, v in (("x", x), ("w", w))]
    module = legalised(variables, lambda: relax.BlockBuilder.current().emit_te(product, *variables))
    target = able("cpu-avx512")
    np.testing.assert_array_equal(run(assemble(module, [], target), x, w), x.astype(np.int32) @ w.astype(np.int32))


#: Fewer rows than any tile has, its multiples and their neighbours, several blocks of rows.
ROWS = [1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 64, 100, 255, 256, 257, 300]


def open_product(depth: int, w: np.ndarray, dtype: str, name: str, most: int = 300) -> Assembly:
    """``x[n, depth] · w`` with ``n`` known on the call only."""
    rows = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo((rows, depth), dtype))
    module = legalised([x], lambda: relax.BlockBuilder.current().emit_te(product, x, relax.const(w)))
    return assemble(with_dims(module, {"n": DimRange(1, most)}), [], able(name))


@pytest.mark.parametrize(("depth", "columns", "most"), [(128, 96, 300), (100, 50, 300), (64, 16, 12)])
@pytest.mark.parametrize("signs", [("uint8", "int8"), ("int8", "int8"), ("uint8", "uint8")])
@pytest.mark.parametrize("name", ["cpu", "cpu-avx512", "cpu-avx2"])
def test_any_number_of_rows(name: str, signs: tuple[str, str], depth: int, columns: int, most: int) -> None:
    w = some((depth, columns), signs[1])
    assembly = open_product(depth, w, signs[0], name, most)
    assert list(assembly.schedules.values()) == ["product"]
    for rows in (n for n in ROWS if n <= most):
        x = some((rows, depth), signs[0])
        np.testing.assert_array_equal(run(assembly, x), x.astype(np.int32) @ w.astype(np.int32), err_msg=str(rows))


@pytest.mark.parametrize("name", ["cpu-avx512", "cpu-avx2"])
def test_nothing_behind_the_last_row_is_read(name: str) -> None:
    """The rows end where memory does."""
    w, page = some((64, 48), "int8"), mmap.PAGESIZE
    machine = opened(open_product(64, w, "uint8", name))
    memory = mmap.mmap(-1, 5 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(start + 4 * page), page, 0) == 0
    for rows in (1, 3, 7, 20, 256):
        x = np.frombuffer(memory, np.uint8, rows * 64, 4 * page - rows * 64).reshape(rows, 64)
        x[:] = some(x.shape, "uint8")
        got = machine["main"](tvm.runtime.from_dlpack(x)).numpy()
        np.testing.assert_array_equal(got, x.astype(np.int32) @ w.astype(np.int32), err_msg=str(rows))


def test_open_rows_repay_packing_only_what_is_known_before_the_call() -> None:
    x, w = some((5, 64), "int8"), some((64, 48), "int8")
    shape = (tvm.tirx.Var("n", "int64"), 64)
    variables = [
        relax.Var("x", relax.TensorStructInfo(shape, "int8")),
        relax.Var("w", relax.TensorStructInfo(w.shape, "int8")),
    ]
    module = legalised(variables, lambda: relax.BlockBuilder.current().emit_te(product, *variables))
    assembly = assemble(with_dims(module, {"n": DimRange(1, 300)}), [], able("cpu-avx512"))
    assert "vpdpbusd" not in assembly.module.script()
    assert "vpdpbusd" in open_product(64, w, "int8", "cpu-avx512").module.script()
    np.testing.assert_array_equal(run(assembly, x, w), x.astype(np.int32) @ w.astype(np.int32))


ZEROS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "none": (np.uint8(0), np.int8(0)),
    "left": (np.uint8(131), np.int8(0)),
    "both": (np.uint8(7), np.int8(-3)),
    "columns": (np.uint8(255), np.arange(-24, 24, dtype=np.int8)),
}


@pytest.mark.parametrize("zeros", ZEROS)
@pytest.mark.parametrize("target", ["cpu-avx512", "cpu-avx2"])
def test_operators_with_open_batch_and_sequence(zeros: str, target: str, tmp_path: Path) -> None:
    (a_zero, b_zero), weight = ZEROS[zeros], some((64, 48), "int8")
    build = Builder("integers")
    a = build.input("a", ("batch", "seq", 64), "uint8")
    constants = build.constant(weight), build.constant(a_zero), build.constant(b_zero)
    build.output(build.node("MatMulInteger", a, *constants), ("batch", "seq", 48), "int32", name="sums")
    scales = [build.constant(np.float32(value)) for value in (0.5, 0.25, 64)]
    given = [scales[0], constants[1], constants[0], scales[1], constants[2], scales[2], build.constant(np.uint8(100))]
    build.output(build.node("QLinearMatMul", a, *given), ("batch", "seq", 48), "uint8", name="requantised")
    path = tmp_path / "integers.onnx"
    onnx.save(build.model(), path)
    options = CompileOptions(able(target), dims={"batch": DimRange(1, 8), "seq": DimRange(1, 100)})
    model = load(compile_to_folder(path, options, tmp_path / "out", force=False, progress=Silent()).path)
    for batch, seq in ((1, 1), (1, 5), (3, 1), (5, 3), (1, 31), (4, 16), (1, 100), (3, 100)):
        feeds = {"a": some((batch, seq, 64), "uint8")}
        expected = (feeds["a"].astype(np.int32) - a_zero) @ (weight.astype(np.int32) - b_zero)
        outputs = model(feeds)
        np.testing.assert_array_equal(outputs["sums"], expected)
        steps = np.rint(expected * np.float32(0.5 * 0.25 / 64)) + 100
        np.testing.assert_array_equal(outputs["requantised"], np.clip(steps, 0, 255).astype(np.uint8))
