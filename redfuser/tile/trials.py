"""Inputs that a kernel is tried on, and the part of its work that is checked: the same for every back end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np

from redfuser.expr import Tensor
from redfuser.expr.evaluate import numpy_dtype
from redfuser.tile.ir import TileProgram

Array = np.ndarray[Any, Any]

#: At most so many blocks are interpreted for each set of inputs.
BLOCKS = 4
#: Roundings that a sum of n products is worth to each of its inputs: about √n in the mean.
NUDGE = 4


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


def positive_inputs(program: TileProgram, seed: int) -> Iterator[dict[str, Array]]:
    """The magnitudes of ordinary inputs, and a little more."""
    random = np.random.default_rng(seed)
    ordinary = {tensor.name: _ordinary(tensor, random) for tensor in program.inputs}
    real = [tensor for tensor in program.inputs if "float" in tensor.dtype]
    yield {**ordinary, **{t.name: (np.abs(ordinary[t.name]) + 0.1).astype(ordinary[t.name].dtype) for t in real}}


def nudged(inputs: dict[str, Array]) -> dict[str, Array]:
    """The inputs with every float32 moved up or down, in float64, as far as summing a few dozen products may."""
    random = np.random.default_rng(0)
    step = NUDGE * np.finfo(np.float32).eps / 2

    def moved(value: Array) -> Array:
        return value * (1 + step * random.choice([-1.0, 1.0], value.shape))

    return {name: moved(value) if value.dtype == np.float32 else value for name, value in inputs.items()}


def as_tf32(inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The inputs with every float32 rounded to the eleven bits of TF32, as tensor cores read it."""
    return {name: _to_tf32(value) if value.dtype == np.float32 else value for name, value in inputs.items()}


def _to_tf32(value: Array) -> Array:
    """Halves away from zero; what isn't finite, or wouldn't be any more, stays."""
    bits = np.ascontiguousarray(value).view(np.uint32)
    rounded = ((bits + np.uint32(1 << 12)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(value) & np.isfinite(rounded), rounded, value).reshape(value.shape)


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


def chosen_blocks(program: TileProgram) -> frozenset[int] | None:
    """Blocks of the last phase to interpret: all if they are few, else the first, the last and some between."""
    count = prod(tile.count for tile in program.phases[-1].grid)
    if count <= BLOCKS:
        return None
    return frozenset(round(n * (count - 1) / (BLOCKS - 1)) for n in range(BLOCKS))
