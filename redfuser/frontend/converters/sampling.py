"""GridSample: an image between its elements. TVM's operator reads its grid in another layout than it infers from."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

from tvm import relax, te, tirx

from redfuser.frontend.converters.common import Attributes, Inputs, cast, dtype_of, rank_of

#: An element along one axis, as a whole number in floating point, and what it counts.
Tap = tuple[tirx.PrimExpr, tirx.PrimExpr]

#: The parameter of cubic convolution that ONNX, as PyTorch, takes.
_CUBIC = -0.75

#: Positions further away than this are taken for this: any that fits an int32 would do.
_FARTHEST = float(1 << 30)


def convert_grid_sample(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> relax.Expr:
    """Sample ``(batch, channels, *extents)`` at the places of ``(batch, *places, axes)``, the last axis first.

    Any number of axes. Beyond the border elements are zero, the border's, or mirrored.

    Raises:
        ValueError: the data isn't floating point, or implementations of ONNX disagree: in cubic sampling at the border
            ONNX Runtime, as PyTorch, moves elements there, and knows two axes; ONNX's reference moves positions.
    """
    data, grid = inputs
    kind = dtype_of(data)
    if "float" not in kind:
        raise ValueError(f"data of {kind}")
    mode, padding = (attributes.get(name, default).decode() for name, default in _DEFAULTS)
    taps, index = _TAPS[mode.removeprefix("bi")], _INDICES[padding]
    aligned = bool(attributes.get("align_corners", 0))
    if taps is _cubic and padding == "border" and rank_of(data) != 4:
        raise ValueError(f"mode cubic at the border along {rank_of(data) - 2} axes")

    def sample(image: te.Tensor, grid: te.Tensor) -> te.Tensor:
        extents = image.shape[2:]

        def element(batch: tirx.Var, channel: tirx.Var, *place: tirx.Var) -> tirx.PrimExpr:
            given = [grid(batch, *place, axis) for axis in reversed(range(len(extents)))]
            positions = [_position(at, extent, aligned) for at, extent in zip(given, extents, strict=True)]
            value = tirx.const(0, kind)
            for chosen in product(*map(taps, positions)):
                found = [index(at, extent, aligned) for (at, _), extent in zip(chosen, extents, strict=True)]
                pixel = image(batch, channel, *(where for where, _ in found))
                inside = [condition for _, condition in found if condition is not None]
                if inside:
                    pixel = tirx.Select(tirx.all(*inside), pixel, tirx.const(0, kind))
                value = value + math.prod((weight for _, weight in chosen[1:]), start=chosen[0][1]) * pixel
            return value

        return te.compute((*image.shape[:2], *grid.shape[1:-1]), element, name="grid_sample")

    return bb.emit_te(sample, data, cast(bb, grid, kind), primfunc_name_hint="grid_sample")


def _position(given: tirx.PrimExpr, extent: tirx.PrimExpr, aligned: bool) -> tirx.PrimExpr:
    """Where along an axis a place is that ONNX gives as a number from -1 to 1."""
    one, two = (tirx.const(number, given.dtype) for number in (1, 2))
    length = extent.astype(given.dtype)
    return (given + one) / two * (length - one) if aligned else ((given + one) * length - one) / two


def _nearest(position: tirx.PrimExpr) -> list[Tap]:
    return [(tirx.nearbyint(position), tirx.const(1, position.dtype))]


def _linear(position: tirx.PrimExpr) -> list[Tap]:
    one, floor = tirx.const(1, position.dtype), tirx.floor(position)
    return [(floor, one - (position - floor)), (floor + one, position - floor)]


def _cubic(position: tirx.PrimExpr) -> list[Tap]:
    floor = tirx.floor(position)

    def number(value: float) -> tirx.PrimExpr:
        return tirx.const(value, position.dtype)

    def near(away: tirx.PrimExpr) -> tirx.PrimExpr:
        return (number(_CUBIC + 2) * away - number(_CUBIC + 3)) * away * away + number(1)

    def far(away: tirx.PrimExpr) -> tirx.PrimExpr:
        square = (number(_CUBIC) * away - number(5 * _CUBIC)) * away + number(8 * _CUBIC)
        return square * away - number(4 * _CUBIC)

    part = position - floor
    weights = [far(part + number(1)), near(part), near(number(1) - part), far(number(2) - part)]
    return [(floor + number(step), weight) for step, weight in zip((-1, 0, 1, 2), weights, strict=True)]


def _zero(at: tirx.PrimExpr, extent: tirx.PrimExpr, aligned: bool) -> tuple[tirx.PrimExpr, tirx.PrimExpr | None]:
    inside = tirx.all(at >= tirx.const(0, at.dtype), at < extent.astype(at.dtype))
    return tirx.Select(inside, at.astype("int64"), tirx.const(0, "int64")), inside


def _at_border(at: tirx.PrimExpr, extent: tirx.PrimExpr, aligned: bool) -> tuple[tirx.PrimExpr, tirx.PrimExpr | None]:
    return tirx.max(tirx.min(_whole(at), extent - 1), tirx.const(0, "int64")), None


def _mirrored(at: tirx.PrimExpr, extent: tirx.PrimExpr, aligned: bool) -> tuple[tirx.PrimExpr, tirx.PrimExpr | None]:
    """Aligned, the mirror stands on the last element; else behind it, which then comes twice."""
    whole, twice = _whole(at), 2 * extent
    period = tirx.max(twice - 2, tirx.const(1, "int64")) if aligned else twice
    folded = tirx.floormod(whole, period)
    return tirx.min(folded, (period if aligned else twice - 1) - folded), None


def _whole(at: tirx.PrimExpr) -> tirx.PrimExpr:
    """As an integer; 0 for NaN, so that every element read lies within the image."""
    farthest = tirx.const(_FARTHEST, at.dtype)
    bounded = tirx.max(tirx.min(at, farthest), -farthest)
    return tirx.Select(tirx.isnan(at), tirx.const(0, "int64"), bounded.astype("int64"))


_DEFAULTS = (("mode", b"linear"), ("padding_mode", b"zeros"))

_TAPS: dict[str, Callable[[tirx.PrimExpr], list[Tap]]] = {"nearest": _nearest, "linear": _linear, "cubic": _cubic}

_INDICES = {"zeros": _zero, "border": _at_border, "reflection": _mirrored}
