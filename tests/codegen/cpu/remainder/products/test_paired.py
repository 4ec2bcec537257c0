"""Products of pairs of bfloat16: when they are used, how their factor is packed, and that the numbers are right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

pytest.importorskip("tvm")

import tvm
from tvm import relax
from tvm.script import relax as R

from redfuser.api import compile_to_folder
from redfuser.artifact.load import load
from redfuser.codegen.cpu.module import assemble
from redfuser.codegen.cpu.remainder.function import schedule_function
from redfuser.codegen.cpu.remainder.products.packing import Packing
from redfuser.codegen.cpu.remainder.products.paired import NAME
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.signature import DimRange
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import able, legalised, run

BFLOAT16 = ml_dtypes.bfloat16
FOUND = load_target("cpu-avx512")
assert isinstance(FOUND, CpuTarget)
TARGET = replace(FOUND, features=("avx512bf16", "avx512vnni"))


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(BFLOAT16)


def product(rows: int, depth: int, columns: int, dtype: str = "bfloat16") -> tvm.IRModule:
    x = relax.Var("x", R.Tensor((rows, depth), dtype))
    weight = relax.const(random(depth, columns).astype(np.dtype(BFLOAT16) if dtype == "bfloat16" else dtype))
    return legalised([x], lambda: relax.op.matmul(x, weight))


def calls_pairs(module: tvm.IRModule, known: bool = True, target: CpuTarget = TARGET) -> bool:
    """Whether the product of a module is written with them."""
    (function,) = (f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc) and len(f.params) == 3)
    scheduled = schedule_function(function, (False, known), target)
    assert scheduled.kind == "product"
    together = scheduled.packing.together if isinstance(scheduled.packing, Packing) else 1
    assert (together == 2) == (NAME in str(scheduled.function))
    return together == 2


def test_a_constant_factor_is_multiplied_by_pairs() -> None:
    assert calls_pairs(product(8, 32, 64))


@pytest.mark.parametrize(
    ("sizes", "known", "target"),
    [
        pytest.param((8, 32, 64), True, FOUND, id="no instruction"),
        pytest.param((8, 32, 64), False, TARGET, id="known on the call only"),
        pytest.param((8, 33, 64), True, TARGET, id="odd sum"),
        pytest.param((8, 32, 8), True, TARGET, id="fewer columns than lanes"),
        pytest.param((8, 32, 64, "float16"), True, TARGET, id="another type"),
    ],
)
def test_what_the_instruction_does_not_fit_goes_one_by_one(
    sizes: tuple[Any, ...], known: bool, target: CpuTarget
) -> None:
    assert not calls_pairs(product(*sizes), known, target)


@pytest.mark.parametrize("shape", [(1, 64, 48), (7, 96, 80), (37, 64, 49), (197, 4096, 32)])
def test_sums_are_those_of_float32(shape: tuple[int, int, int]) -> None:
    """One row, rows that no tile divides, columns that no panel divides, a sum in parts."""
    rows, depth, columns = shape
    a = random(rows, depth)
    exact = a.astype("f8") @ random(depth, columns).astype("f8")
    got = run(assemble(product(rows, depth, columns), [], able(TARGET)), a).astype("f8")
    np.testing.assert_allclose(got, exact, rtol=2**-8, atol=2**-20 * depth)


def test_infinities_and_nan_are_where_the_graph_has_them() -> None:
    a = random(4, 32)
    a[0, 3], a[1, 5], a[2, 7], a[3, 8], a[3, 9] = np.inf, np.nan, -np.inf, np.inf, -np.inf
    with np.errstate(all="ignore"):
        exact = a.astype("f8") @ random(32, 64).astype("f8")
    got = run(assemble(product(4, 32, 64), [], able(TARGET)), a).astype("f8")
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(got) * np.sign(got), np.isinf(exact) * np.sign(exact))


def test_the_number_of_rows_may_be_open(tmp_path: Path) -> None:
    weight = random(64, 80)
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.BFLOAT16, ["n", width])
        for name, width in (("x", 64), ("y", 80))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    constant = helper.make_tensor("w", TensorProto.BFLOAT16, weight.shape, weight.tobytes(), raw=True)
    graph = helper.make_graph([node], "product", [x], [y], [constant])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "product.onnx"
    )
    options = CompileOptions(able(TARGET), dims={"n": DimRange(1, 100)})
    artifact = compile_to_folder(tmp_path / "product.onnx", options, tmp_path / "out", force=False, progress=Silent())
    model = load(artifact.path)
    for rows in (1, 5, 33, 100):
        a = random(rows, 64)
        exact = a.astype("f8") @ weight.astype("f8")
        np.testing.assert_allclose(model({"x": a})["y"].astype("f8"), exact, rtol=2**-8, atol=1e-4)
