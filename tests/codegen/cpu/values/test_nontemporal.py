"""Stores past the caches as machine code: that they are used, by which vectors, and that the numbers are right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import relax

from redfuser.codegen.cpu import compile_kernel, generate
from redfuser.codegen.cpu.build import runs_here
from redfuser.codegen.cpu.module import Replacement, assemble
from redfuser.codegen.cpu.values.nontemporal import LEAST_BYTES, WITHOUT, storable
from redfuser.expr import axis, op
from redfuser.expr.evaluate import numpy_dtype
from redfuser.targets import CpuTarget
from redfuser.tile import TileProgram, interpret
from tests.codegen.cpu.build import legalised, run
from tests.codegen.cpu.programs import elementwise, target
from tests.tile.build import Rows, program, random_inputs

DEVICES = ("cpu-x86-64", "cpu-avx2", "cpu-avx512")


def tiny(device: str) -> CpuTarget:
    """Caches of one KB."""
    return replace(target(device), l2_kb=1, l3_kb=1)


def kernel(wanted: TileProgram, device: str) -> tuple[str, np.ndarray, dict[str, np.ndarray]]:
    """Machine code, what it gives on this machine (nothing if it can't run), and the inputs."""
    random = np.random.default_rng(0)
    inputs = {t.name: random.standard_normal(t.shape).astype(numpy_dtype(t.dtype)) for t in wanted.inputs}
    compiled = compile_kernel(generate(wanted, tiny(device)), tiny(device))
    got = compiled(*inputs.values())[0] if runs_here(tiny(device)) else np.zeros(0)
    return compiled.assembly(), got, inputs


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_rows_with_nan_and_infinity(name: str, device: str) -> None:
    cascade = getattr(Rows(axis("i", 9), axis("l", 208)), name)()
    wanted = program(cascade, "resident", 1, "l", l=128)
    compiled = compile_kernel(generate(wanted, tiny(device)), tiny(device))
    assert "movnt" in compiled.assembly() and "sfence" in compiled.assembly()
    if not runs_here(tiny(device)):
        pytest.skip(f"this processor can't run code for {device}")
    inputs = random_inputs(cascade)
    inputs["x"][1], inputs["x"][2, 100], inputs["x"][3, 207], inputs["x"][4, 0] = -np.inf, np.nan, np.inf, -np.inf
    got = compiled(*(inputs[t.name] for t in wanted.inputs))[0]
    exact = interpret(wanted, inputs, "float64")["y0"]
    assert (np.isnan(got) == np.isnan(exact)).all() and (np.isinf(got) == np.isinf(exact)).all()
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("device", DEVICES)
def test_every_type(dtype: str, device: str) -> None:
    assembly, got, inputs = kernel(elementwise(lambda a: op("add", a, a), 2048, dtype), device)
    wide_enough = tiny(device).lanes * numpy_dtype(dtype).itemsize >= LEAST_BYTES
    assert ("movnt" in assembly) == (wide_enough and dtype not in WITHOUT)
    if got.size:
        np.testing.assert_array_equal(got, inputs["a"] + inputs["a"])


def test_booleans_are_stored_one_by_one() -> None:
    assembly, got, _ = kernel(elementwise(lambda a: op("lt", a, a), 2048, "float32", out="bool"), "cpu-avx2")
    assert "movnt" not in assembly and (not got.size or not got.any())


@pytest.mark.parametrize("points", [2000, 2001, 2040])
def test_a_last_block_that_is_moved_back(points: int) -> None:
    assembly, got, inputs = kernel(elementwise(lambda a: op("add", a, a), points, "float32"), "cpu-avx2")
    assert "movnt" in assembly
    if got.size:
        np.testing.assert_array_equal(got, inputs["a"] + inputs["a"])


def test_a_small_result_stays_in_cache() -> None:
    wanted = elementwise(lambda a: op("add", a, a), 2048, "float32")
    assert "movnt" not in compile_kernel(generate(wanted, target("cpu-avx2")), target("cpu-avx2")).assembly()


def test_a_fence_ends_each_thread_not_each_block() -> None:
    text = generate(elementwise(lambda a: op("add", a, a), 2048, "float32"), tiny("cpu-avx2")).script()
    body = text[text.index("pragma_parallel_launch_point") :]
    loop, fence = body.index("T.parallel(32)"), body.index("llvm.x86.sse.sfence")

    def depth(place: int) -> int:
        line = body[body.rindex("\n", 0, place) + 1 : place + 1]
        return len(line) - len(line.lstrip())

    assert loop < fence and depth(loop) == depth(fence)


def test_arm_code_has_none_of_it() -> None:
    wanted = elementwise(lambda a: op("add", a, a), 2048, "float32")
    function = generate(wanted, tiny("cpu-aarch64"))
    assert "nontemporal" not in function.script() and "fence" not in function.script()
    assert "stnp" not in compile_kernel(function, tiny("cpu-aarch64")).assembly()


def test_kernels_of_one_module_share_the_definitions() -> None:
    x = relax.Var("x", relax.TensorStructInfo((2048,), "float32"))
    module = legalised([x], lambda: relax.op.exp(relax.op.tanh(x)))
    tanh, exp = (binding.var for binding in module["main"].body.blocks[0].bindings[:2])
    doubled, squared = (
        generate(elementwise(lambda a, name=name: op(name, a, a), 2048, "float32"), tiny("cpu"))
        for name in ("add", "mul")
    )
    replacements = [Replacement(doubled, "doubled", (x,), (tanh,)), Replacement(squared, "squared", (tanh,), (exp,))]
    values = np.random.default_rng(0).standard_normal(2048).astype(np.float32)
    got = run(assemble(module, replacements, tiny("cpu")), values)
    np.testing.assert_array_equal(got, (values + values) ** 2)


def test_which_vectors_can_be_stored() -> None:
    assert storable("float32", 4) and storable("uint16", 32) and storable("float64", 16)
    assert not storable("float32", 1) and not storable("float32", 12) and not storable("float32", 2)
    assert not storable("bool", 64) and not storable("float16", 32)
