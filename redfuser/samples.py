"""Inputs to try a model on: sizes of its symbolic dimensions, and plausible arrays."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from redfuser.signature import DimRange, DimSum, TensorSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    Values = dict[str, Array]

#: Sizes that tiles and vectors find hard: one, primes, multiples and their neighbours.
_HARD_SIZES = (7, 16, 31, 64, 65, 129)

#: An upper bound up to this is tried as well.
_LARGEST_TRIED = 1024


def sample_sizes(dims: Mapping[str, DimRange], sums: Mapping[str, DimSum] | None = None) -> tuple[dict[str, int], ...]:
    """Sizes of symbolic dimensions to try: the smallest, hard ones along the last dimension, the largest if small.

    The dimensions before the last one, batches most often, stay small. Where one is the sum of others, each of these in
    turn is the long one, and the rest of them as short as may be: new words without a past, and a past with one.

    Args:
        sums: what those dimensions have to be that others decide; they are among ``dims`` or not.
    """
    own = {name: bounds for name, bounds in dims.items() if name not in (sums or {})}
    parts = {name for total in (sums or {}).values() if len(total.counts) > 1 for name in total.counts} & own.keys()
    tried = [_along(own, last, parts) for last in ([name for name in own if name in parts] or list(own)[-1:])]
    return tuple(with_sums(sizes, sums or {}) for along in tried for sizes in along) or ({},)


def _along(dims: Mapping[str, DimRange], last: str, short: Container[str]) -> Iterator[dict[str, int]]:
    """Sizes where one dimension is long."""
    bounds = dims[last]
    lengths = [bounds.low, *(n for n in _HARD_SIZES if n in bounds), *([bounds.high] * (bounds.high <= _LARGEST_TRIED))]
    for place, length in enumerate(dict.fromkeys(lengths)):
        small = {name: each.low if name in short else each.clamp(1 + place % 3) for name, each in dims.items()}
        yield {**small, last: length}


def with_sums(sizes: Mapping[str, int], sums: Mapping[str, DimSum]) -> dict[str, int]:
    """Sizes of all dimensions: those that are sums of others too."""
    return {**sizes, **{name: total.at(sizes) for name, total in sums.items() if total.counts.keys() <= sizes.keys()}}


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
