"""Compares a compiled kernel with the tile interpreter on inputs chosen to break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from redfuser.accuracy import Accuracy, compare
from redfuser.codegen.cpu.build import CompiledKernel, compile_kernel, runs_here
from redfuser.evaluate import numpy_dtype
from redfuser.expr import Tensor
from redfuser.report.value import NumericError
from redfuser.targets import CpuTarget
from redfuser.tile.concrete import program_at, trial_sizes
from redfuser.tile.interpreter import interpret_blocks
from redfuser.tile.ir import TileProgram

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

    Array = np.ndarray[Any, Any]
    Trials = Callable[[TileProgram, int], Iterator[dict[str, Array]]]

#: At most so many blocks are interpreted for each set of inputs.
BLOCKS = 4


def check_kernel(program: TileProgram, function: PrimFunc, target: CpuTarget, seed: int) -> NumericError | None:
    """The kernel's error against float64 by the accuracy rule, the worst over all outputs, sizes and sets of inputs.

    The baseline of the rule is the same program interpreted in its stated types.

    Args:
        program: what the function was generated from.
        function: as generated.
        target: what it is compiled for.
        seed: of the random inputs.

    Returns:
        ``None`` if this machine can't run the target's code.
    """
    if not runs_here(target):
        return None
    kernel = compile_kernel(function, target, len(program.outputs))
    # A logarithm may need positive inputs to give numbers at all.
    worst = _worst(program, kernel, trial_inputs, seed) or _worst(program, kernel, positive_inputs, seed)
    if worst is None:
        raise ValueError(f"nothing finite came out of {program.name} on any trial input: it can't be checked")
    return NumericError(worst.rmse, worst.baseline_rmse, worst.max_abs, worst.passed)


def _worst(program: TileProgram, kernel: CompiledKernel, trials: Trials, seed: int) -> Accuracy | None:
    worst: Accuracy | None = None
    for sizes in trial_sizes(program):
        here = program_at(program, sizes)
        for inputs in trials(here, seed):
            results = kernel(*(inputs[tensor.name] for tensor in here.inputs), **sizes)
            for accuracy in _compare(here, inputs, results):
                if worst is None or (worst.passed, -worst.rmse) > (accuracy.passed, -accuracy.rmse):
                    worst = accuracy
    return worst


def positive_inputs(program: TileProgram, seed: int) -> Iterator[dict[str, Array]]:
    """The magnitudes of ordinary inputs, and a little more."""
    random = np.random.default_rng(seed)
    ordinary = {tensor.name: _ordinary(tensor, random) for tensor in program.inputs}
    real = [tensor for tensor in program.inputs if "float" in tensor.dtype]
    yield {**ordinary, **{t.name: (np.abs(ordinary[t.name]) + 0.1).astype(ordinary[t.name].dtype) for t in real}}


def trial_inputs(program: TileProgram, seed: int) -> Iterator[dict[str, Array]]:
    """Sets of inputs: ordinary ones, large ones, then one tensor after another with minus infinity in places."""
    random = np.random.default_rng(seed)
    ordinary = {tensor.name: _ordinary(tensor, random) for tensor in program.inputs}
    real = [tensor for tensor in program.inputs if "float" in tensor.dtype]
    yield ordinary
    yield {**ordinary, **{t.name: (ordinary[t.name] * 8).astype(ordinary[t.name].dtype) for t in real}}
    for tensor in real:
        if len(tensor.shape) > 1:
            yield {**ordinary, tensor.name: _with_holes(ordinary[tensor.name], random)}


def _ordinary(tensor: Tensor, random: np.random.Generator) -> Array:
    kind = numpy_dtype(tensor.dtype)
    if tensor.dtype == "bool":
        return _with_empty_rows(random.random(tensor.shape) < 0.7, False)
    if "int" in tensor.dtype:
        # Masks of ones and zeros: anything larger overflows (1 - mask) * -3.4e38 and leaves nothing finite.
        return _with_empty_rows((random.random(tensor.shape) < 0.7).astype(kind), 0)
    return random.standard_normal(tensor.shape, dtype=np.float32).astype(kind)


def _with_holes(value: Array, random: np.random.Generator) -> Array:
    """A third of the elements, and every seventh row, minus infinity: as an additive mask has it."""
    holes = np.where(random.random(value.shape) < 0.3, -np.inf, value).astype(value.dtype)
    return _with_empty_rows(holes, -np.inf)


def _with_empty_rows(value: Array, empty: float | bool) -> Array:
    """An only row stays: a mask that every row shares would hide everything, and leave nothing finite to compare."""
    rows = value.reshape(-1, value.shape[-1] if value.ndim else 1)
    if len(rows) > 1:
        rows[::7] = empty
    return value


def _compare(program: TileProgram, inputs: dict[str, Array], results: tuple[Array, ...]) -> Iterator[Accuracy]:
    """Each output on the blocks that were interpreted; one without a finite element says nothing and is left out."""
    blocks = chosen_blocks(program)
    exact, written = interpret_blocks(program, inputs, blocks, "float64")
    rounded, _ = interpret_blocks(program, inputs, blocks)
    for tensor, result in zip(program.outputs, results, strict=True):
        where = written[tensor.name]
        if tensor.dtype != "bool" and not np.isfinite(exact[tensor.name][where]).any() and where.any():
            continue
        accuracy = compare(
            result[where].astype(rounded[tensor.name].dtype),
            exact[tensor.name][where],
            rounded[tensor.name][where],
            tensor.dtype,
        )
        yield accuracy if accuracy.passed else replace(accuracy, reason=f"{tensor.name}: {accuracy.reason}")


def chosen_blocks(program: TileProgram) -> frozenset[int] | None:
    """Blocks of the last phase to interpret: all if they are few, else the first, the last and some between."""
    count = prod(tile.count for tile in program.phases[-1].grid)
    if count <= BLOCKS:
        return None
    return frozenset(round(n * (count - 1) / (BLOCKS - 1)) for n in range(BLOCKS))
