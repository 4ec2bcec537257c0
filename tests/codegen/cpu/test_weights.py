"""Large constants as read-only data of the library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm_ffi.libinfo import find_dlpack_include_path, find_include_path

from redfuser.codegen.cpu.module import CpuAssembly, assemble
from redfuser.codegen.cpu.weights import FETCH, LEAST_BYTES, Weights, take_weights
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import legalised, run

LEAST_ROWS = LEAST_BYTES // (4 * 64)


def constant(rows: int, columns: int) -> relax.Constant:
    return relax.const(np.random.default_rng(rows).random((rows, columns), np.float32))


def scaled(*weights: relax.Constant) -> tvm.IRModule:
    """``x`` times each weight in turn."""
    x = relax.Var("x", weights[0].struct_info)

    def product() -> relax.Expr:
        total: relax.Expr = x
        for weight in weights:
            total = relax.op.multiply(total, weight)
        return total

    return legalised([x], product)


def test_large_constants_are_fetched() -> None:
    taken, weights = take_weights(scaled(constant(128, 128)))
    assert FETCH in taken.script() and str(weights) == "0: float32[128, 128]"


@pytest.mark.parametrize(("columns", "fetched"), [(64, True), (63, False)])
def test_small_constants_stay(columns: int, fetched: bool) -> None:
    taken, weights = take_weights(scaled(constant(LEAST_ROWS, columns)))
    assert bool(weights.tensors) == (FETCH in taken.script()) == fetched


def test_a_constant_used_twice_is_stored_once() -> None:
    first, second = constant(128, 128), constant(1, 128 * 128)
    _, weights = take_weights(scaled(first, relax.const(second.data.numpy().reshape(128, 128)), first))
    assert len(weights.tensors) == 2


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16", "float64", "int8", "uint8", "int64", "bool"])
def test_values_of_each_type(kind: str) -> None:
    """The last row of two tables, so that both are read where they end."""
    tables = [(np.random.default_rng(rows).integers(0, 9, (rows, 300)) > 4).astype("f4") for rows in (301, 299)]
    x = relax.Var("x", relax.TensorStructInfo([300], "bool"))

    def choose() -> relax.Expr:
        rows = (relax.op.take(relax.const(table, kind), relax.const(len(table) - 1), 0) for table in tables)
        return relax.op.astype(relax.op.where(x, *rows), "float32")

    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    assembly = assemble(legalised([x], choose), (), target)
    assert isinstance(assembly, CpuAssembly) and len(assembly.weights.tensors) == 2
    chosen = np.arange(300) % 2 == 0
    np.testing.assert_array_equal(run(assembly, chosen), np.where(chosen, tables[0][-1], tables[1][-1]))


def test_nothing_is_written_without_weights(tmp_path: Path) -> None:
    assert Weights(()).write(tmp_path) == [] and not list(tmp_path.iterdir())


@pytest.mark.parametrize("language", ["c", "c++"])
def test_either_compiler_takes_the_source(language: str, tmp_path: Path) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (source,) = Weights((constant(3, 5).data, constant(2, 2).data)).write(tmp_path)
    includes = [f"-I{folder}" for folder in {find_include_path(), find_dlpack_include_path()}]
    options = ["-x", language, "-Wall", "-Werror", "-c", "-fPIC", "-o", str(tmp_path / "weights.o")]
    subprocess.run([compiler, *options, *includes, source], check=True)
