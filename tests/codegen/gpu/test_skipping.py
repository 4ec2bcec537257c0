"""Attention that passes over what a mask hides: bounds of the loop, and emitted kernels in the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from redfuser.accuracy import compare
from redfuser.algebra import derive
from redfuser.codegen.gpu import Builder, GpuProgram
from redfuser.codegen.gpu.emission.emit import emit
from redfuser.codegen.gpu.schedule import candidates
from redfuser.tile import TileProgram, build, interpret, verify
from redfuser.tile.strategies.skipping.narrowing import SKIP_HIDDEN
from tests.codegen.gpu.programs import Array, Attention, gpu, random_inputs
from tests.emulator.emulator import poisoned, run_program
from tests.emulator.library import needs_compiler

Inputs = dict[str, Array]
LONG = Attention(heads=1, q_len=200, kv_len=520, mask="bool")


def first_program(attention: Attention, target: str) -> TileProgram:
    cascade = attention.cascade()
    derivation = derive(cascade)
    program = build(cascade, derivation, candidates(cascade, derivation, gpu(target))[0])
    verify(program)
    return program


@pytest.mark.parametrize(("mask", "kernels"), [("causal", 3), ("window", 3), ("bool", 4)])
def test_the_loop_reads_its_bounds(mask: str, kernels: int) -> None:
    scripts = emit(first_program(replace(LONG, heads=132, mask=mask), "h800"))
    assert len(scripts) == kernels, "kernels that look and decide, and one that computes"
    (loop,) = [line for line in scripts[-1].text.splitlines() if " in T.Pipelined(" in line]
    assert "j_last" in loop and "j_last = T.max(T.min(tile_last[" in scripts[-1].text
    assert ("j_first" in loop) == (mask != "causal")


@pytest.mark.parametrize("attention", [replace(LONG, mask="none"), replace(LONG, q_len=1), replace(LONG, kv_len=256)])
def test_looking_must_be_worth_while(attention: Attention) -> None:
    assert SKIP_HIDDEN not in dict(first_program(attention, "a10").schedule.options)


def test_schedules_that_do_not_skip_come_last() -> None:
    """Where no kernel that looks can be built, attention must still fuse."""
    cascade = replace(LONG, mask="causal").cascade()
    skipping = [SKIP_HIDDEN in dict(s.options) for s in candidates(cascade, derive(cascade), gpu("h800"))]
    assert skipping == sorted(skipping, reverse=True) and {True, False} <= set(skipping)


def spoilt(inputs: Inputs, **values: float) -> Inputs:
    """A number far behind what rows see."""
    changed = {name: array.copy() for name, array in inputs.items()}
    for name, value in values.items():
        changed[name][..., -3, 5] = value
    return changed


def cases(inputs: Inputs) -> dict[str, Inputs]:
    found = {"plain": inputs, "NaN in v": spoilt(inputs, v=np.nan), "infinity in k": spoilt(inputs, k=np.inf)}
    if "mask" in inputs:
        seen = np.tri(200, 520, 120, dtype=bool)
        inputs["mask"] = seen
        found["left padding"] = {**inputs, "mask": seen & (np.arange(520) >= 150)}
        found["large scores"] = {**inputs, "q": (inputs["q"] * 3000).astype(np.float16)}
    return found


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(("mask", "target"), [("bool", "h800"), ("causal", "a10"), ("window", "h800"), ("bool", "a10")])
def test_no_number_changes(mask: str, target: str, builder: Builder) -> None:
    program = first_program(replace(LONG, mask=mask), target)
    kernels = builder.build(program, gpu(target))
    assert isinstance(kernels, GpuProgram) and all(kernel.resources.spills <= 16 for kernel in kernels.kernels)
    inputs = random_inputs(replace(LONG, mask=mask).cascade())
    for name, case in cases(inputs).items():
        arrays = {**case, **{tensor.name: poisoned(tensor.shape, tensor.dtype) for tensor in program.outputs}}
        run_program(kernels, arrays)
        exact, rounded = interpret(program, case, "float64"), interpret(program, case)
        for tensor in program.outputs:
            accuracy = compare(arrays[tensor.name], exact[tensor.name], rounded[tensor.name], tensor.dtype)
            assert accuracy.passed, f"{name}: {accuracy}"
