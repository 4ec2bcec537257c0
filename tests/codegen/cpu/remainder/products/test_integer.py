"""Products of quantised matrices in whole models: zero points, signs, sizes, on every kind of processor."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, te

from redfuser.codegen.cpu.module import assemble
from tests.codegen.cpu.build import able, legalised, run

SHAPES = [(37, 100, 50), (64, 128, 96), (3, 64, 33), (300, 64, 64)]


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


@pytest.mark.parametrize("shape", SHAPES)
def test_bytes_with_a_weight_known_on_the_call(shape: tuple[int, int, int]) -> None:
    rows, depth, columns = shape
    x, w = some((rows, depth), "int8"), some((depth, columns), "int8")
    variables = [relax.Var(n, relax.TensorStructInfo(v.shape, "int8")) for n, v in (("x", x), ("w", w))]
    module = legalised(variables, lambda: relax.BlockBuilder.current().emit_te(product, *variables))
    target = able("cpu-avx512")
    np.testing.assert_array_equal(run(assemble(module, [], target), x, w), x.astype(np.int32) @ w.astype(np.int32))
