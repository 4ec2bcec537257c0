"""What TVM generates for a GPU: schedules, accumulation, identities, and that all of it compiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tvm")

import tvm
from tvm import relax, s_tir, tirx
from tvm.script import relax as R
from tvm.script import tirx as T

from redfuser.codegen.assembly import fuse_elementwise
from redfuser.codegen.gpu.module import HOST, assemble
from redfuser.codegen.gpu.remainder.accumulation import accumulate_wide
from redfuser.codegen.gpu.remainder.identities import start_finite, start_infinite
from redfuser.codegen.gpu.remainder.scheduling import schedule_function
from redfuser.codegen.gpu.remainder.words import without_words
from redfuser.frontend.identities import start_at_infinity
from redfuser.frontend.kernels import top_k
from tests.codegen.cpu.build import legalised
from tests.codegen.gpu.programs import gpu

MACHINE = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host=HOST)


def module(params: Sequence[relax.Var], body: Callable[[], relax.Expr]) -> tvm.IRModule:
    """A module as the back end gets it."""
    return start_at_infinity(legalised(params, body))


def last_function(params: Sequence[relax.Var], body: Callable[[], relax.Expr]) -> tirx.PrimFunc:
    fused = fuse_elementwise(module(params, body))
    return [f for _, f in fused.functions_items() if isinstance(f, tirx.PrimFunc)][-1]


def var(name: str, shape: tuple[int, ...], dtype: str = "float32") -> relax.Var:
    return relax.Var(name, R.Tensor(shape, dtype))


@pytest.mark.parametrize(
    ("rule", "shape", "body"),
    [
        ("rows", (8, 300), lambda x: relax.op.max(x, axis=[1])),
        ("rows", (64, 64), lambda x: relax.op.min(x)),
        ("rows", (8, 300), lambda x: relax.op.max(relax.op.astype(x, "float16"), axis=[1])),
        ("reduction", (8, 300), lambda x: relax.op.sum(x, axis=[1])),
        ("general-reduction", (8, 300), lambda x: relax.op.nn.softmax(x)),
        ("fallback", (8, 300), lambda x: relax.op.exp(x)),
        ("fallback", (100_000, 4), lambda x: relax.op.max(x, axis=[1])),
    ],
)
def test_each_function_gets_the_rule_that_fits(rule: str, shape: tuple[int, ...], body: Callable) -> None:
    x = var("x", shape)
    chosen, scheduled = schedule_function(last_function([x], lambda: body(x)), MACHINE)
    assert chosen == rule
    assert scheduled.attrs["tirx.is_scheduled"]


@pytest.mark.parametrize("open_axis", [0, 1])
def test_extrema_of_open_size_share_out_a_row(open_axis: int) -> None:
    shape = [8, 300]
    shape[open_axis] = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorStructInfo(shape, "float32"))
    chosen, scheduled = schedule_function(last_function([x], lambda: relax.op.max(x, axis=[1])), MACHINE)
    assert chosen == "rows" and "threadIdx.x" in scheduled.script()


def test_what_no_rule_can_take_runs_in_one_thread() -> None:
    @T.prim_func(private=True, s_tir=True)
    def chain(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")) -> None:
        with T.sblock("opaque"):
            T.reads(x[0:8])
            T.writes(y[0:8])
            y[0] = x[0]
            for i in range(7):
                y[i + 1] = y[i] + x[i + 1]

    rule, scheduled = schedule_function(chain, MACHINE)
    assert rule in ("fallback", "one-thread")
    assert "threadIdx.x" in scheduled.script()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_sums_accumulate_in_float32(dtype: str) -> None:
    a, b = var("a", (32, 64), dtype), var("b", (64, 32), dtype)
    text = accumulate_wide(last_function([a, b], lambda: relax.op.matmul(a, b))).script()
    assert 'T.Cast("float32", a[' in text or 'T.Cast("float32", A[' in text
    assert "matmul_wide[" in text and f'T.Cast("{dtype}", matmul_wide[' in text
    x = var("x", (8,))
    plain = last_function([x], lambda: relax.op.sum(x))
    assert accumulate_wide(plain) is plain


def test_start_values_are_finite_for_scheduling_and_the_model_s_constants_survive() -> None:
    x = var("x", (8, 300))
    lowest = float(np.finfo("float32").min)
    function = last_function([x], lambda: relax.op.max(relax.op.maximum(x, relax.const(lowest)), axis=[1]))
    finite = start_finite(function)
    assert "-inf" not in finite.script() and "__int_as_float" in finite.script()
    back = start_infinite(tvm.IRModule({"main": finite}))["main"].script()
    assert (
        "-inf" in back
        and "__int_as_float" in back
        and "e38" not in back.lower().replace("e+38", "e38").split("T.func")[0]
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_every_kind_of_function_becomes_machine_code(dtype: str, nvcc: Path) -> None:
    x, w = var("x", (16, 64), dtype), var("w", (64, 32), dtype)

    def body() -> relax.Expr:
        product = relax.op.matmul(x, w)
        shifted = relax.op.subtract(product, relax.op.max(product, axis=[1], keepdims=True))
        scaled = relax.op.clip(relax.op.exp(shifted), 0, 1)
        return relax.op.divide(scaled, relax.op.sum(relax.op.maximum(scaled, relax.op.abs(shifted))))

    assembly = assemble(module([x, w], body), [], gpu("h800"))
    assert set(assembly.calls) == set(assembly.schedules)


def test_a_selection_is_not_shared_out_among_threads() -> None:
    rule, scheduled = schedule_function(top_k(64, 300, 4, "float32", largest=True), MACHINE)
    assert rule in ("general-reduction", "fallback")
    s_tir.transform.LowerCrossThreadReduction()(tvm.IRModule({"main": scheduled}))


def test_parameters_are_not_called_like_words_of_cpp() -> None:
    """As a model may call its open dimensions; what isn't one stays as it is."""
    names = ("new", "new_0", "length")
    new, other, length = (tirx.Var(name, "int64") for name in names)
    body = tirx.Evaluate(new + other + length)
    changed = without_words(tvm.IRModule({"main": tirx.PrimFunc([new, other, length], body)}))["main"]
    assert [parameter.name for parameter in changed.params] == ["new_1", "new_0", "length"]
    used = {variable.name for variable in tirx.analysis.undefined_vars(changed.body, [])}
    assert used == {"new_1", "new_0", "length"}
