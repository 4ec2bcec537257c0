"""The discrete Fourier transform, as a product with a table of cosines and sines."""

from __future__ import annotations

import numpy as np
from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    Attributes,
    Inputs,
    constant,
    dtype_of,
    extents_of,
    matmul,
    optional,
    rank_of,
    static_extents,
)
from redfuser.frontend.converters.guards import MOST_ELEMENTS


def convert_dft(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """DFT along one axis: of real numbers, whose last extent is 1, or of complex ones as pairs; the result is pairs.

    Exact to the rounding of a sum over the signal: each phase is reduced before its cosine is taken.

    Raises:
        ValueError: the signal is so long that the table would fill the memory.
    """
    data, given, place = inputs[0], optional(inputs, 1), optional(inputs, 2)
    rank = rank_of(data)
    axis = int(constant(place, "axis").item()) if place is not None else attributes.get("axis", 1)
    axis %= rank
    extents = extents_of(data)
    count, parts = static_extents([extents[axis], extents[-1]])
    length = count if given is None else int(constant(given, "dft_length").item())
    inverse = bool(attributes.get("inverse", 0))
    used, results = min(count, length), length // 2 + 1 if attributes.get("onesided", 0) else length
    if used * parts * results * 2 > MOST_ELEMENTS:
        raise ValueError(f"a signal of {length} elements is too long")
    if used < count:
        data = bb.emit(R.strided_slice(data, [axis], [0], [used]))
    # The axis beside the parts: both are folded at once.
    order = [a for a in range(rank - 1) if a != axis] + [axis, rank - 1]
    others = [extents[a] for a in order[:-2]]
    rows = bb.emit(R.reshape(bb.emit(R.permute_dims(data, order)), [*others, used * parts]))
    table = _table(used, parts, results, length, inverse).reshape(used * parts, results * 2)
    product = matmul(bb, rows, relax.const(table.astype(dtype_of(data)), dtype_of(data)))
    return R.permute_dims(bb.emit(R.reshape(product, [*others, results, 2])), [int(a) for a in np.argsort(order)])


def _table(used: int, parts: int, results: int, length: int, inverse: bool) -> np.ndarray:
    """What element ``n``'s part counts in result ``k``'s, as ``(used, parts, results, 2)`` of float64."""
    steps = np.arange(used)[:, None] * np.arange(results) % length
    turn = np.exp((2j if inverse else -2j) * np.pi * steps / length) / (length if inverse else 1)
    whole = np.array([[turn.real, turn.imag], [-turn.imag, turn.real]])
    return whole.transpose(2, 0, 3, 1)[:, :parts]
