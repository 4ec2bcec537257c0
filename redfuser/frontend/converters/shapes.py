"""Reshape, Expand, Tile and Unsqueeze by ONNX's rules, of static and of symbolic dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import tvm_ffi
from tvm import relax, tirx
from tvm.relax import op as R

from redfuser.frontend.converters.common import (
    Attributes,
    Converter,
    Inputs,
    constant,
    dtype_of,
    extents_of,
    optional,
    rank_of,
)


def convert_reshape(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Reshape to a known shape: 0 keeps an extent (unless ``allowzero``), -1 is what remains."""
    data = inputs[0]
    shape = extents_of(data)
    target = _sizes(inputs[1], "shape")
    if not attributes.get("allowzero", 0):
        target = [shape[place] if _is(extent, 0) else extent for place, extent in enumerate(target)]
    if any(_is(extent, -1) for extent in target):
        place = next(place for place, extent in enumerate(target) if _is(extent, -1))
        target[place] = _quotient(shape, target[:place] + target[place + 1 :])
    return R.zeros(target, dtype_of(data)) if any(_is(n, 0) for n in target) else R.reshape(data, target)


def convert_expand(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Expand: broadcast with a known shape; 1 keeps an extent."""
    data, target = inputs[0], _sizes(inputs[1], "shape")
    shape = list(extents_of(data))
    rank = max(len(shape), len(target))
    shape, target = ([*[1] * (rank - len(extents)), *extents] for extents in (shape, target))
    target = [own if _is(asked, 1) else asked for own, asked in zip(shape, target, strict=True)]
    return R.broadcast_to(data, target)


def convert_tile(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Tile: an axis of its own for the repetitions of each dimension, merged with it."""
    data, repeats = inputs[0], _sizes(inputs[1], "repeats")
    shape = extents_of(data)
    if len(repeats) != len(shape):
        raise ValueError(f"{len(repeats)} repeats of {len(shape)} dimensions")
    pairs = [((1, extent), (times, extent)) for times, extent in zip(repeats, shape, strict=True)]
    apart, repeated = (list(chain.from_iterable(extents)) for extents in zip(*pairs, strict=True))
    spread = bb.emit(R.broadcast_to(bb.emit(R.reshape(data, apart)), repeated))
    return R.reshape(spread, [times * extent for times, extent in zip(repeats, shape, strict=True)])


def convert_unsqueeze(stock: Converter) -> Converter:
    """Unsqueeze; where ONNX asks for a list of axes, exporters also write one number."""

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr | Sequence[relax.Expr]:
        axes = optional(inputs, 1)
        if isinstance(axes, relax.Constant) and rank_of(axes) == 0:
            inputs = [inputs[0], relax.const(constant(axes, "axes").reshape(1), "int64")]
        return stock(bb, inputs, attributes)

    return convert


def _sizes(value: relax.Expr | None, what: str) -> list[Any]:
    """Sizes asked for: integers, and ``tirx`` expressions where they are known on the call only."""
    if isinstance(value, relax.ShapeExpr):
        return [int(n) if isinstance(n, tirx.IntImm) else n for n in value.values]
    return [int(size) for size in constant(value, what)]


def _is(extent: Any, value: int) -> bool:
    return isinstance(extent, int) and extent == value


def _factors(extent: Any) -> list[Any]:
    """What an extent is the product of, so that ``4·batch`` cancels with ``batch`` and 4."""
    if isinstance(extent, tirx.Mul):
        return [*_factors(extent.a), *_factors(extent.b)]
    return [int(extent) if isinstance(extent, tirx.IntImm) else extent]


def _quotient(above: Sequence[Any], below: Sequence[Any]) -> Any:
    """Product of some extents by that of others, symbolic ones that occur in both cancelled."""
    rest = [factor for extent in above for factor in _factors(extent)]
    divisors = []
    for factor in (factor for extent in below for factor in _factors(extent)):
        same = next((n for n in rest if not isinstance(n, int) and tvm_ffi.structural_equal(n, factor)), None)
        if same is None:
            divisors.append(factor)
        else:
            rest.remove(same)
    total, known = math.prod(rest), math.prod(divisors)
    if isinstance(total, int) and isinstance(known, int):
        return total // max(known, 1)
    if all(isinstance(n, int) for n in divisors):  # a static part that divides keeps the rest a product
        static = math.prod(n for n in rest if isinstance(n, int))
        if static % max(known, 1) == 0:
            return math.prod((n for n in rest if not isinstance(n, int)), start=static // max(known, 1))
    return tirx.floordiv(total, known)
