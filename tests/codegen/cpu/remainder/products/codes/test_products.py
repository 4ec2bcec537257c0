"""Products by weights that were quantised: when codes are kept, how they are packed, and that the numbers are right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytest.importorskip("tvm")

import tvm
from tvm import relax

from redfuser.api import compile_to_folder
from redfuser.artifact.load import load
from redfuser.codegen.cpu.module import assemble
from redfuser.codegen.cpu.remainder.function import Scheduled, schedule_function
from redfuser.codegen.cpu.remainder.products.codes.coding import Coding, find_coding
from redfuser.codegen.cpu.remainder.products.packing import Packing
from redfuser.options import CompileOptions
from redfuser.progress import Silent
from redfuser.signature import DimRange
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import able, legalised, run
from tests.codegen.cpu.remainder.products.codes.test_coding import dequantised

TARGETS = ["cpu", "cpu-avx2", "cpu-x86-64"]


def target(name: str) -> CpuTarget:
    found = load_target(name)
    assert isinstance(found, CpuTarget)
    return able(found)


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def product(rows: int, weight: np.ndarray[Any, Any], known: bool = True) -> tvm.IRModule:
    x = relax.Var("x", relax.TensorStructInfo((rows, len(weight)), "float32"))
    right = relax.const(weight) if known else relax.Var("w", relax.TensorStructInfo(weight.shape, "float32"))
    return legalised([x] if known else [x, right], lambda: relax.op.matmul(x, right))


def scheduled(module: tvm.IRModule, known: bool = True) -> Scheduled:
    (function,) = (f for f in module.functions.values() if isinstance(f, tvm.tirx.PrimFunc))
    return schedule_function(function, (False, known), target("cpu-avx2"))


def test_codes_take_the_place_of_numbers() -> None:
    """At 4 bits in blocks of 32 an eighth of the bytes and the scales: 5 bits a number."""
    weight = dequantised(512, 4, 32, -8, 7)
    assembly = assemble(product(3, weight), [], target("cpu"))
    sizes = [value.data.numpy().nbytes for value in constants(assembly.module)]
    assert sizes == [weight.size * 5 // 8]


def constants(module: tvm.IRModule) -> list[relax.Constant]:
    found: list[relax.Constant] = []
    relax.analysis.post_order_visit(
        module["main"], lambda node: found.append(node) if isinstance(node, relax.Constant) else None
    )
    return found


def test_a_quantised_weight_has_a_coding() -> None:
    weight = dequantised(512, 4, 32, -8, 7)
    assert scheduled(product(3, weight)).coding(weight) == Coding(4, 32, False)


def test_what_is_known_on_the_call_only_has_none() -> None:
    assert scheduled(product(64, dequantised(512, 4, 32, -8, 7), known=False), known=False).factor is None


@pytest.mark.parametrize(
    ("rows", "weight"),
    [
        pytest.param(3, random(512, 32), id="never quantised"),
        pytest.param(3, np.tile(dequantised(512, 4, 32, -8, 7), (4, 1))[:, :8].copy(), id="fewer columns than lanes"),
    ],
)
def test_other_weights_stay_numbers(rows: int, weight: np.ndarray[Any, Any]) -> None:
    found = scheduled(product(rows, weight))
    assert isinstance(found.packing, Packing) and found.coding(weight) is None


# Rows: one tile decodes where it uses, more share what was decoded. Columns that no panel divides; sums in parts.
@pytest.mark.parametrize("rows", [1, 3, 8, 37])
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("bits", "block", "low", "high"),
    [(4, 32, -8, 7), (4, 16, -12, 3), (8, 32, -128, 127), (8, 1056, 0, 255)],
    ids=["4", "4-shifted", "8", "8-column"],
)
def test_sums_are_those_of_numbers(rows: int, name: str, bits: int, block: int, low: int, high: int) -> None:
    depth, columns = 1056, 70
    weight = dequantised(depth, bits, block, low, high, columns=columns)
    assert find_coding(weight) is not None
    a = random(rows, depth)
    exact = a.astype("f8") @ weight.astype("f8")
    size = np.abs(a).astype("f8") @ np.abs(weight).astype("f8")
    got = run(assemble(product(rows, weight), [], target(name)), a)
    assert (np.abs(got - exact) / size).max() < 4e-7


@pytest.mark.parametrize("rows", [2, 11])
@pytest.mark.parametrize(("low", "high"), [(1, 7), (2, 13), (-15, 0)], ids=["plain", "shifted", "with-zeros"])
def test_infinities_and_nan_are_where_the_graph_has_them(rows: int, low: int, high: int) -> None:
    weight = dequantised(512, 4, 32, low, high)
    a = random(rows, 512)
    a[0, 3], a[-1, 500] = np.inf, np.nan
    with np.errstate(all="ignore"):
        exact = a.astype("f8") @ weight.astype("f8")
    got = run(assemble(product(rows, weight), [], target("cpu")), a)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    np.testing.assert_array_equal(np.isinf(got) * np.sign(got), np.isinf(exact) * np.sign(exact))


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_large_and_small_numbers_keep_their_digits(size: float) -> None:
    weight = dequantised(512, 4, 32, -8, 7)
    a = random(1, 512) * np.float32(size)
    exact = a.astype("f8") @ weight.astype("f8")
    got = run(assemble(product(1, weight), [], target("cpu")), a)
    np.testing.assert_allclose(got, exact, rtol=1e-4, atol=size * 1e-6)


def test_the_number_of_rows_may_be_open(tmp_path: Path) -> None:
    weight = dequantised(544, 4, 32, -12, 3, columns=50)
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name, width in (("x", 544), ("y", 50))
    )
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "product", [x], [y], [numpy_helper.from_array(weight, "w")])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "product.onnx"
    )
    options = CompileOptions(target("cpu"), dims={"n": DimRange(1, 100)})
    artifact = compile_to_folder(tmp_path / "product.onnx", options, tmp_path / "out", force=False, progress=Silent())
    model = load(artifact.path)
    for rows in (1, 2, 5, 8, 9, 13, 29, 100):
        a = random(rows, 544)
        (got,) = model({"x": a}).values()
        np.testing.assert_allclose(got, a.astype("f8") @ weight.astype("f8"), rtol=1e-4, atol=1e-5)
    assert (artifact.path / "module.so").stat().st_size < weight.nbytes
