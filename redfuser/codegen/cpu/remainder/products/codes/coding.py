"""Finds weights that were quantised: float32 numbers that small integers and a scale for each block give bit by bit.

Whichever operator a model spells it with, a weight of 4 or 8 bits that was dequantised is one again. No TVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

#: Bits of a code, and rows of a block, that are tried, in this order. What has one scale for a column has several equal
#: ones: a block is also what is summed up on its own, and sums of more elements round too often.
BITS, BLOCKS = (4, 8), (256, 128, 64, 32, 16)

#: A scale is sought so many steps of float32 around its quotient: several may give the same products.
STEPS = 2

#: Columns tried before all are.
SAMPLE = 8

#: A smaller weight isn't worth decoding.
LEAST = 1 << 14


@dataclass(frozen=True)
class Coding:
    """How a weight is coded.

    Args:
        bits: of a code, which is signed.
        block: rows, of one column, that share a scale.
        shifted: whether codes are shifted, by a number for each block, to fit their bits.
    """

    bits: int
    block: int
    shifted: bool

    def __str__(self) -> str:
        return f"{self.bits} bits in blocks of {self.block}{', shifted' if self.shifted else ''}"


@dataclass(frozen=True)
class Codes:
    """A weight in codes: ``float32(code - shift) · scale`` is each of its numbers.

    Args:
        codes: (depth, columns), int8.
        scales: (blocks, columns), float32.
        shifts: (blocks, columns), int8.
    """

    codes: Array
    scales: Array
    shifts: Array


def find_coding(weight: Array) -> Coding | None:
    """The coding with the fewest bits, then the largest blocks, that gives a weight bit by bit; None if none does.

    Args:
        weight: (depth, columns), float32.
    """
    depth, columns = weight.shape
    if weight.dtype != np.float32 or weight.size < LEAST:
        return None
    for bits in BITS:
        for block in BLOCKS:
            if depth % block or _solve(_blocks(weight[:, :: -(-columns // SAMPLE)], block), bits) is None:
                continue
            found = encode(weight, bits, block)
            if found is not None:
                return Coding(bits, block, bool(found.shifts.any()))
    return None


def encode(weight: Array, bits: int, block: int) -> Codes | None:
    """A weight, (depth, columns), in codes of so many bits with a scale for so many rows; None if none give it."""
    depth, columns = weight.shape
    solved = _solve(_blocks(weight, block), bits)
    if solved is None:
        return None
    numbers, scales = solved
    half = 1 << (bits - 1)
    low, high = numbers.min(axis=1), numbers.max(axis=1)
    mirrored = (high == half) & (low > -half)
    numbers[mirrored] *= -1
    scales[mirrored] *= -1
    low, high = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    shifts = np.where(high >= half, half - 1 - high, np.where(low < -half, -half - low, 0))
    codes = (numbers + shifts[:, None]).astype(np.int8)
    by_column = codes.reshape(columns, depth).T
    return Codes(by_column, scales.reshape(columns, -1).T, shifts.astype(np.int8).reshape(columns, -1).T)


def _blocks(weight: Array, block: int) -> Array:
    """Each block as a row, those of the first column first."""
    return np.ascontiguousarray(weight.T).reshape(-1, block)


def _solve(blocks: Array, bits: int) -> tuple[Array, Array] | None:
    """Integers of each block, no further apart than codes are, and the scale that gives it; None if a block has none.

    A scale is the smallest number of its block by the integer which that may stand for, most often 1.
    """
    limit = (1 << bits) - 1
    sizes = np.abs(blocks)
    sizes[sizes == 0] = np.inf
    sizes = sizes.min(axis=1)
    sizes[np.isinf(sizes)] = 1
    numbers, fits = _numbers(blocks, sizes, limit)
    scales, rest = sizes.copy(), np.flatnonzero(~fits)
    for unit in range(2, limit + 1):
        # Of a weight that never was quantised no block has a scale: that is the usual case, and has to be found soon.
        if rest.size and not _is_solvable(blocks[rest[rest.size // 2]], sizes[rest[rest.size // 2]], limit):
            return None
        for step in range(-STEPS, STEPS + 1):
            if rest.size:
                candidates = _quotients(sizes[rest], unit, step)
                found, fits = _numbers(blocks[rest], candidates, limit)
                numbers[rest[fits]], scales[rest[fits]] = found[fits], candidates[fits]
                rest = rest[~fits]
    return None if rest.size else (numbers, scales)


def _is_solvable(block: Array, size: Any, limit: int) -> bool:
    """Whether one block has a scale, all of which are tried at once."""
    if np.unique(block).size > limit + 1:
        return False
    units, steps = np.meshgrid(np.arange(1, limit + 1), np.arange(-STEPS, STEPS + 1))
    candidates = _quotients(size, units.reshape(-1), steps.reshape(-1))
    return bool(_numbers(np.broadcast_to(block, (candidates.size, block.size)), candidates, limit)[1].any())


def _quotients(sizes: Array, units: Any, steps: Any) -> Array:
    """``sizes / units``, some steps of float32 further."""
    quotients = np.asarray(sizes / np.asarray(units, np.float32), np.float32)
    return (quotients.view(np.int32) + np.asarray(steps, np.int32)).view(np.float32)


def _numbers(blocks: Array, scales: Array, limit: int) -> tuple[Array, Array]:
    """Each block by its scale as integers, and whether they give it back and are near enough to each other."""
    with np.errstate(all="ignore"):
        numbers = np.rint(blocks / scales[:, None])
        same = (numbers * scales[:, None] == blocks).all(axis=1)
    low, high = numbers.min(axis=1), numbers.max(axis=1)
    with np.errstate(invalid="ignore"):
        return numbers.astype(np.int16), same & (high - low <= limit) & (high <= limit) & (low >= -limit)
