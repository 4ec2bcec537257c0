"""Assembly: kernels in the place of bindings, order, dead code, equal bytes."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("tvm")

import tvm
from tvm import relax
from tvm.script import relax as R
from tvm.script import tirx as T

from redfuser.codegen.cpu.module import Replacement, assemble
from redfuser.codegen.rewire import rewire
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import called, legalised, run


@pytest.fixture(scope="module")
def target() -> CpuTarget:
    found = load_target("cpu")
    assert isinstance(found, CpuTarget)
    return found


def model() -> tvm.IRModule:
    """``c = exp(x + w) · 2 - x``, bound one operator at a time."""
    x = relax.Var("x", R.Tensor((4, 8), "float32"))
    w = relax.const(np.linspace(0, 1, 8, dtype="float32"))
    return legalised([x], lambda: relax.op.subtract(twice(relax.op.exp(relax.op.add(x, w))), x))


def twice(value: relax.Expr) -> relax.Expr:
    return relax.op.multiply(value, relax.const(2.0, "float32"))


@T.prim_func(private=True, s_tir=True)
def exp_and_twice(x: T.Buffer((4, 8), "float32"), e: T.Buffer((4, 8), "float32"), t: T.Buffer((4, 8), "float32")):
    T.func_attr({"tirx.noalias": True})
    for i, j in T.grid(4, 8):
        with T.sblock("both"):
            r, c = T.axis.remap("SS", [i, j])
            e[r, c] = T.exp(x[r, c])
            t[r, c] = T.exp(x[r, c]) * T.float32(2)


def bound(module: tvm.IRModule) -> dict[str, relax.Var]:
    """Bound variables by the name of the PrimFunc that defines them."""
    bindings = module["main"].body.blocks[0].bindings
    return {b.value.args[0].name_hint.removeprefix("tir_"): b.var for b in bindings}


def test_a_kernel_with_two_outputs_takes_its_place(target: CpuTarget) -> None:
    module = model()
    variables = bound(module)
    outputs = (variables["exp"], variables["multiply"])
    replacement = Replacement(exp_and_twice, "both", (variables["add"],), outputs)
    x = np.random.default_rng(0).standard_normal((4, 8), dtype="float32")
    assembly = assemble(module, [replacement], target)
    assert assembly.schedules["both"] == "fused"
    assert assembly.calls["both"] == 1
    assert "tir_exp" not in assembly.schedules
    np.testing.assert_allclose(
        run(assembly, x), np.exp(x + np.linspace(0, 1, 8, dtype="float32")) * 2 - x, rtol=1e-5, atol=1e-5
    )


def test_a_call_comes_after_all_its_inputs() -> None:
    """A kernel that defines an early and a late variable is moved behind the later one's inputs."""
    x = relax.Var("x", R.Tensor((4, 8), "float32"))
    module = legalised([x], lambda: relax.op.add(relax.op.exp(x), relax.op.multiply(relax.op.tanh(x), relax.op.abs(x))))
    variables = bound(module)

    @T.prim_func(private=True, s_tir=True)
    def kernel(
        x: T.Buffer((4, 8), "float32"),
        a: T.Buffer((4, 8), "float32"),
        e: T.Buffer((4, 8), "float32"),
        p: T.Buffer((4, 8), "float32"),
    ) -> None:
        for i, j in T.grid(4, 8):
            with T.sblock("both"):
                r, c = T.axis.remap("SS", [i, j])
                e[r, c] = T.exp(x[r, c])
                p[r, c] = T.tanh(x[r, c]) * a[r, c]

    replacement = Replacement(kernel, "k", (x, variables["abs"]), (variables["exp"], variables["multiply"]))
    rewired = rewire(module, [replacement])
    relax.analysis.well_formed(rewired)
    called = [b.value.args[0].name_hint for b in rewired["main"].body.blocks[0].bindings if hasattr(b.value, "args")]
    assert called.index("tir_abs") < called.index("k") < called.index("add")
    assert "tir_tanh" not in called


def test_a_replacement_that_depends_on_itself_is_refused() -> None:
    module = model()
    variables = bound(module)
    replacement = Replacement(exp_and_twice, "both", (variables["multiply"],), (variables["exp"], variables["add"]))
    with pytest.raises(ValueError, match="depends on itself"):
        rewire(module, [replacement])


def test_functions_that_are_equal_but_for_names_are_compiled_once(target: CpuTarget) -> None:
    @T.prim_func(private=True, s_tir=True)
    def twice(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4, 8), "float32")) -> None:
        T.func_attr({"tirx.noalias": True, "op_pattern": 8})
        for i, j in T.grid(4, 8):
            with T.sblock("twice"):
                r, c = T.axis.remap("SS", [i, j])
                y[r, c] = x[r, c] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def doubled(other: T.Buffer((4, 8), "float32"), result: T.Buffer((4, 8), "float32")) -> None:
        T.func_attr({"tirx.noalias": True, "op_pattern": 8})
        for a, b in T.grid(4, 8):
            with T.sblock("doubled"):
                r, c = T.axis.remap("SS", [a, b])
                result[r, c] = other[r, c] * T.float32(2)

    x = relax.Var("x", R.Tensor((4, 8), "float32"))
    module = called([x], [twice, doubled])
    assembly = assemble(module, [], target)
    assert list(assembly.calls.values()) == [2]
    value = np.ones((4, 8), dtype="float32")
    np.testing.assert_array_equal(run(assembly, value), value * 4)


def test_a_function_that_does_not_compile_keeps_its_form(target: CpuTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    # TVM has no vectors of bfloat16 in memory.
    monkeypatch.setattr("redfuser.codegen.cpu.remainder.kernel.in_memory", lambda dtype: dtype)
    x = relax.Var("x", R.Tensor((64,), "bfloat16"))
    module = legalised([x], lambda: relax.op.exp(relax.op.astype(x, "float32")))
    assembly = assemble(module, [], target)
    assert assembly.statistics() == {"default": 1}
    value = np.linspace(-1, 1, 64).astype(ml_dtypes.bfloat16)
    np.testing.assert_allclose(run(assembly, value), np.exp(value.astype("float32")), rtol=1e-5)


def test_equal_modules_give_equal_bytes(target: CpuTarget, tmp_path: Path) -> None:
    written = []
    for folder in ("a", "another"):
        (tmp_path / folder).mkdir()
        assemble(model(), [], target).write(tmp_path / folder / "module.so")
        written.append((tmp_path / folder / "module.so").read_bytes())
    assert written[0] == written[1]
