"""Compiled tile programs in the emulator against the interpreter in float64, on the inputs that bundles carry.

Of a large grid only some blocks are run, in their places in the true launch: the kernel is the very one that a device
would get.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from redfuser.accuracy import compare
from redfuser.artifact.bundle import CASES, BundledKernel
from redfuser.tile.interpreter import needed_blocks
from redfuser.tile.trials import chosen_blocks, trial_inputs
from tests.emulator.emulator import EmulationError, poisoned, run_program
from tests.emulator.schedules import SCHEDULES, Schedule

Array = np.ndarray[Any, Any]


def differences(
    kernel: BundledKernel, seed: int = 0, cases: int = CASES, schedules: Sequence[Schedule] = SCHEDULES[:2]
) -> Iterator[str]:
    """What is wrong with a kernel: faults that the emulator finds, and outputs that break the accuracy rule.

    Args:
        cases: sets of inputs: ordinary ones, large ones, then with minus infinity in places and in whole rows.
        schedules: taken in turn, one for each set of inputs.
    """
    blocks = chosen_blocks(kernel.program)
    for number, inputs in enumerate(islice(trial_inputs(kernel.program, seed), cases)):
        schedule = schedules[number % len(schedules)]
        for problem in _compared(kernel, inputs, blocks, schedule):
            yield f"{kernel.program.name}, inputs {number}, {schedule}: {problem}"


def _compared(
    kernel: BundledKernel, inputs: Mapping[str, Array], blocks: Collection[int] | None, schedule: Schedule
) -> Iterator[str]:
    program = kernel.program
    arrays = dict(inputs) | {tensor.name: poisoned(tensor.shape, tensor.dtype) for tensor in program.outputs}
    try:
        run_program(kernel.code, arrays, schedule, needed_blocks(program, blocks))
    except EmulationError as error:
        yield str(error)
        return
    exact, rounded, written = kernel.expected(inputs, blocks)
    for tensor in program.outputs:
        where = written[tensor.name]
        got, near = arrays[tensor.name][where], rounded[tensor.name][where]
        accuracy = compare(got, exact[tensor.name][where], near, kernel.rule(tensor))
        if not accuracy.passed:
            yield f"{tensor.name}: {accuracy}"
