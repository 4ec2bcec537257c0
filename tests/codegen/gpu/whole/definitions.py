"""Tile programs in the interpreter against the definition of their cascade, both in float64."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import prod

import numpy as np

from redfuser.cascade.model import Cascade
from redfuser.tile.interpreter import interpret_blocks
from redfuser.tile.ir import TileProgram
from redfuser.tile.trials import trial_inputs
from tests.cascade.reference import evaluate_points

#: Sets of inputs: ordinary ones, large ones, ones with minus infinity.
CASES = 3


def differences(cascade: Cascade, program: TileProgram, seed: int = 0) -> Iterator[str]:
    """Where the first and the last block of a tile program give something else than the cascade's definition.

    Of each axis of rows the first and the last are computed by the definition: reduction after reduction, each whole
    before the next.

    Args:
        cascade: in its canonical form, as detected: unfused, and in the precision that the model states.
        program: what was made of it.
    """
    points = {axis: range(0, axis.extent, max(axis.extent - 1, 1)) for axis in cascade.rows}
    blocks = {0, prod(tile.count for tile in program.phases[-1].grid) - 1}
    for number, inputs in enumerate(islice(trial_inputs(program, seed), CASES)):
        found, written = interpret_blocks(program, inputs, blocks, "float64")
        with np.errstate(all="ignore"):  # NaN and infinities are values here
            defined = evaluate_points(cascade, inputs, points)
        for tensor, (where, value) in defined.items():
            there = written[tensor.name][where]
            if not there.any():
                yield f"{program.name}, inputs {number}: {tensor.name} isn't written"
                continue
            got, wanted = found[tensor.name][where][there], value[there]
            scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0)
            if not np.allclose(got, wanted, rtol=1e-9, atol=1e-11 * scale, equal_nan=True):
                off = ~np.isclose(got, wanted, rtol=1e-9, atol=1e-11 * scale, equal_nan=True)
                pair = f"{got[off][0]} instead of {wanted[off][0]}"
                yield f"{program.name}, inputs {number}: {tensor.name} differs in {off.sum()} places: {pair}"
