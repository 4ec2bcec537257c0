"""Inputs to try a model on: sizes of its symbolic dimensions, and plausible arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redfuser.signature import DimRange, TensorSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Values = dict[str, Array]

#: Sizes that tiles and vectors find hard: one, primes, multiples and their neighbours.
_HARD_SIZES = (7, 16, 31, 64, 65, 129)

#: An upper bound up to this is tried as well.
_LARGEST_TRIED = 1024


def sample_sizes(dims: Mapping[str, DimRange]) -> tuple[dict[str, int], ...]:
    """Sizes of symbolic dimensions to try: the smallest, hard ones along the last dimension, the largest if small.

    The dimensions before the last one, batches most often, stay small.
    """
    if not dims:
        return ({},)
    *outer, last = dims
    *_, (_, bounds) = dims.items()
    lengths = [bounds.low, *(n for n in _HARD_SIZES if n in bounds), *([bounds.high] * (bounds.high <= _LARGEST_TRIED))]
    return tuple(
        {**{name: dims[name].clamp(1 + place % 3) for name in outer}, last: length}
        for place, length in enumerate(dict.fromkeys(lengths))
    )


def random_inputs(specs: Sequence[TensorSpec], seed: int) -> Values:
    """Plausible inputs: standard normal floats, small ids, masks of ones that end in zeros. No extent is symbolic.

    Integers are told apart by name: masks, positions, token types, else ids in ``[0, 32)``.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    return {spec.name: _random(spec, generator) for spec in specs}


def _random(spec: TensorSpec, generator: np.random.Generator) -> Array:
    import numpy as np

    from redfuser.expr.evaluate import numpy_dtype

    dtype = numpy_dtype(spec.dtype)
    name = spec.name.lower()
    shape = tuple(map(int, spec.shape))
    length = shape[-1] if shape else 1
    if "mask" in name:
        ends = generator.integers((length + 1) // 2, length + 1, (*shape[:-1], 1))
        return (np.arange(length) < ends).reshape(shape).astype(dtype)
    if dtype == np.bool_:
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        if "position" in name:
            return np.broadcast_to(np.arange(length), shape).astype(dtype)
        return generator.integers(0, 2 if "type" in name or "segment" in name else 32, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)
