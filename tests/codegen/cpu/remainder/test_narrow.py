"""Kernels of bfloat16 and 8-bit floats: vectors of their bits, computed in float32, rounded where they are stored."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("tvm")

from tvm import relax
from tvm.script import relax as R

from redfuser.codegen.cpu.module import assemble
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import legalised, run

BFLOAT16 = ml_dtypes.bfloat16
#: Every bfloat16 there is, infinities, NaN and subnormal numbers included.
ALL = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)


@pytest.fixture(params=["cpu", "cpu-avx2", "cpu-x86-64"])
def target(request: pytest.FixtureRequest) -> CpuTarget:
    found = load_target(request.param)
    assert isinstance(found, CpuTarget)
    return found


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(BFLOAT16)


def variable(name: str, *shape: int, dtype: str = "bfloat16") -> relax.Var:
    return relax.Var(name, R.Tensor(shape, dtype))


def test_elements_are_rounded_to_nearest_even(target: CpuTarget) -> None:
    x = variable("x", ALL.size)
    assembly = assemble(legalised([x], lambda: relax.op.multiply(x, relax.const(1.7, "bfloat16"))), [], target)
    assert assembly.statistics() == {"elementwise": 1}
    with np.errstate(all="ignore"):
        expected = (ALL.astype("f4") * np.float32(BFLOAT16(1.7))).astype(BFLOAT16)
    np.testing.assert_array_equal(run(assembly, ALL).astype("f4"), expected.astype("f4"))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_are_converted(target: CpuTarget, dtype: str) -> None:
    x = variable("x", 256, dtype=dtype)
    assembly = assemble(legalised([x], lambda: relax.op.astype(x, "float32")), [], target)
    assert assembly.statistics() == {"elementwise": 1}
    values = np.arange(256, dtype=np.uint8).view(dtype)
    np.testing.assert_array_equal(run(assembly, values), values.astype("f4"))


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("shape", [(37, 64, 48), (1, 96, 80), (5, 33, 17)])
def test_products_are_summed_in_float32(target: CpuTarget, shape: tuple[int, int, int], constant: bool) -> None:
    rows, depth, columns = shape
    a, b = random(rows, depth), random(depth, columns)
    x, y = variable("x", rows, depth), variable("y", depth, columns)
    weight = relax.const(b) if constant else y
    module = legalised([x] if constant else [x, y], lambda: relax.op.nn.relu(relax.op.matmul(x, weight)))
    assembly = assemble(module, [], target)
    assert "default" not in assembly.statistics()
    got = run(assembly, *([a] if constant else [a, b]))
    exact = np.maximum(a.astype("f8") @ b.astype("f8"), 0)
    # A sum of float32 that is halfway between two bfloat16, but for its last bits, may go either way.
    np.testing.assert_allclose(got.astype("f8"), exact, rtol=2**-8, atol=1e-5)


def test_a_product_with_infinities_and_nan_has_them_where_the_graph_has(target: CpuTarget) -> None:
    a, b = random(4, 32), random(32, 32)
    a[0, 3], a[1, 5], a[2, 7] = np.inf, np.nan, -np.inf
    b[7, 4] = 0
    x = variable("x", 4, 32)
    assembly = assemble(legalised([x], lambda: relax.op.matmul(x, relax.const(b))), [], target)
    with np.errstate(all="ignore"):
        exact = a.astype("f8") @ b.astype("f8")
    got = run(assembly, a).astype("f8")
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(exact))
    np.testing.assert_array_equal(np.isneginf(got), np.isneginf(exact))


def test_the_largest_of_each_row(target: CpuTarget) -> None:
    values = random(9, 200)
    x = variable("x", 9, 200)
    assembly = assemble(legalised([x], lambda: relax.op.max(x, axis=1)), [], target)
    assert assembly.statistics() == {"reduction": 1}
    np.testing.assert_array_equal(run(assembly, values), values.max(axis=1))
