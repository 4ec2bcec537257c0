"""Results without elements."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from redfuser.codegen.cpu.module import assemble
from redfuser.codegen.empty import compute_nothing
from redfuser.targets import CpuTarget, load_target
from tests.codegen.cpu.build import legalised, run


def module(columns: int) -> tvm.IRModule:
    """Some columns of ``x`` with their exponentials, turned twice, before it."""
    x = relax.Var("x", relax.TensorStructInfo([tirx.Var("n", "int64"), 4], "float32"))

    def body() -> relax.Expr:
        part = relax.op.strided_slice(x, [1], [0], [columns])
        turned = relax.op.permute_dims(relax.op.exp(part), [1, 0])
        return relax.op.concat([relax.op.permute_dims(turned, [1, 0]), x], 1)

    return legalised([x], body)


def test_what_has_no_elements_reads_nothing() -> None:
    found = compute_nothing(module(0))
    calls = [binding.value for block in found["main"].body.blocks for binding in block.bindings]
    assert [len(call.args[1]) for call in calls] == [0, 2]  # what only makes more of nothing is gone


def test_open_and_other_extents_stay() -> None:
    one = module(2)
    assert compute_nothing(one).same_as(one)


@pytest.mark.parametrize("columns", [0, 2])
def test_it_runs(columns: int) -> None:
    target = load_target("cpu")
    assert isinstance(target, CpuTarget)
    x = np.array([[1, 3, 5, 7], [3, 1, 0, 0], [0, 2, 9, 8]], np.float32)
    got = run(assemble(module(columns), (), target), x)
    np.testing.assert_allclose(got, np.concatenate([np.exp(x[:, :columns]), x], 1), rtol=1e-6)
