"""Small Relax modules as lowering leaves them, and running them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import tvm
from tvm import relax

from redfuser.codegen.cpu.build import runs_here
from redfuser.codegen.cpu.module import Assembly
from redfuser.targets import CpuTarget, load_target


def able(target: str | CpuTarget) -> CpuTarget:
    """A target, by its name or itself; the test is skipped where this processor can't run code for it."""
    found = load_target(target) if isinstance(target, str) else target
    assert isinstance(found, CpuTarget)
    if not runs_here(found):
        pytest.skip(f"this processor can't run code for {found}")
    return found


def legalised(params: Sequence[relax.Var], body: Callable[[], relax.Expr]) -> tvm.IRModule:
    """``main`` with one dataflow block of ``call_tir`` bindings."""
    builder = relax.BlockBuilder()
    with builder.function("main", list(params)):
        with builder.dataflow():
            result = builder.emit_output(body())
        builder.emit_func_output(result)
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern()]
    return tvm.transform.Sequential(passes)(builder.get())


def called(params: Sequence[relax.Var], functions: Sequence[tvm.tirx.PrimFunc]) -> tvm.IRModule:
    """``main`` that calls functions one after another, each on the result of the one before."""
    builder = relax.BlockBuilder()
    with builder.function("main", list(params)):
        with builder.dataflow():
            inputs = list(params)
            for number, function in enumerate(functions):
                variable = builder.add_func(function, f"function_{number}")
                inputs = [builder.emit(relax.call_tir(variable, inputs, params[0].struct_info))]
            result = builder.emit_output(inputs[0])
        builder.emit_func_output(result)
    return builder.get()


def opened(assembly: Assembly) -> relax.VirtualMachine:
    """The library, written and loaded."""
    with TemporaryDirectory() as folder:
        assembly.write(Path(folder, "module.so"))
        return relax.VirtualMachine(tvm.runtime.load_module(str(Path(folder, "module.so"))), tvm.cpu())


def run(assembly: Assembly, *inputs: np.ndarray) -> np.ndarray:
    """Call ``main`` once."""
    return opened(assembly)["main"](*[tvm.runtime.tensor(array) for array in inputs]).numpy()
