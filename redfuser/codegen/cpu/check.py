"""Compares a compiled kernel with the tile interpreter on inputs chosen to break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from redfuser.accuracy import Accuracy, compare
from redfuser.codegen.cpu.build import CompiledKernel, compile_kernel, runs_here
from redfuser.expr import Tensor
from redfuser.report.value import NumericError
from redfuser.targets import CpuTarget
from redfuser.tile.concrete import program_at, trial_sizes
from redfuser.tile.interpreter import interpret_blocks
from redfuser.tile.ir import TileProgram
from redfuser.tile.remembering import Memory
from redfuser.tile.trials import chosen_blocks, nudged, positive_inputs, trial_inputs

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

    Array = np.ndarray[Any, Any]
    Trials = Callable[[TileProgram, int], Iterator[dict[str, Array]]]


def check_kernel(program: TileProgram, function: PrimFunc, target: CpuTarget, seed: int) -> NumericError | None:
    """The kernel's error against float64 by the accuracy rule, the worst over all outputs, sizes and sets of inputs.

    The baseline of the rule is the same program interpreted in its stated types or, where that is larger, what a few
    roundings of every input make of the result.

    Args:
        program: what the function was generated from.
        function: as generated.
        target: what it is compiled for.
        seed: of the random inputs.

    Returns:
        ``None`` if this machine can't run the target's code.
    """
    return check_compiled(program, compile_kernel(function, target, len(program.outputs)), target, seed)


def check_compiled(program: TileProgram, kernel: CompiledKernel, target: CpuTarget, seed: int) -> NumericError | None:
    """:func:`check_kernel` of a kernel that is machine code already."""
    if not runs_here(target):
        return None
    # A logarithm may need positive inputs to give numbers at all.
    worst = _worst(program, kernel, trial_inputs, seed) or _worst(program, kernel, positive_inputs, seed)
    if worst is None:
        raise ValueError(f"nothing finite came out of {program.name} on any trial input: it can't be checked")
    return NumericError(worst.rmse, worst.baseline_rmse, worst.max_abs, worst.passed)


def _worst(program: TileProgram, kernel: CompiledKernel, trials: Trials, seed: int) -> Accuracy | None:
    worst: Accuracy | None = None
    for sizes in trial_sizes(program):
        here, known = program_at(program, sizes), Memory()
        for inputs in trials(here, seed):
            results = kernel(*(inputs[tensor.name] for tensor in here.inputs), **sizes)
            for accuracy in _compare(here, inputs, results, known):
                if worst is None or (worst.passed, -worst.rmse) > (accuracy.passed, -accuracy.rmse):
                    worst = accuracy
    return worst


def _compare(
    program: TileProgram, inputs: dict[str, Array], results: tuple[Array, ...], known: Memory
) -> Iterator[Accuracy]:
    """Each output on the blocks that were interpreted; one without a finite element says nothing and is left out."""
    blocks = chosen_blocks(program)
    exact, written = interpret_blocks(program, inputs, blocks, "float64", known)
    rounded, _ = interpret_blocks(program, inputs, blocks, None, known)

    def judged(tensor: Tensor, result: Array, baseline: Array) -> Accuracy:
        where = written[tensor.name]
        got, kind = result[where], rounded[tensor.name].dtype
        return compare(got.astype(kind), exact[tensor.name][where], baseline[where].astype(kind), tensor.dtype)

    for tensor, result in zip(program.outputs, results, strict=True):
        where = written[tensor.name]
        if tensor.dtype != "bool" and not np.isfinite(exact[tensor.name][where]).any() and where.any():
            continue
        accuracy = judged(tensor, result, rounded[tensor.name])
        if not accuracy.passed:
            # One rounding is a small sample of what rounding may do: a few large scores can agree by luck.
            unsettled, _ = interpret_blocks(program, nudged(inputs), blocks, "float64", known)
            accuracy = min(accuracy, judged(tensor, result, unsettled[tensor.name]), key=lambda a: not a.passed)
        yield accuracy if accuracy.passed else replace(accuracy, reason=f"{tensor.name}: {accuracy.reason}")
