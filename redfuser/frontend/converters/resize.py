"""Resize to the nearest element by scales that don't divide an image evenly: TVM takes the ratio of sizes instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax import op as R

from redfuser.frontend.converters.common import Attributes, Converter, Inputs, constant, extents_of, optional

#: How far a scaled extent may be from a whole number.
WHOLE = 1e-4

#: How coordinates are rounded to elements.
ROUNDINGS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda place: np.ceil(place - 0.5),
    "round_prefer_ceil": lambda place: np.floor(place + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def convert_resize(stock: Converter) -> Converter:
    """By TVM's converter where the ratio of sizes is the scale; else elements are looked up, axis by axis.

    It raises ValueError where that needs an extent which is known on the call only.
    """

    def convert(bb: relax.BlockBuilder, inputs: Inputs, attributes: Attributes) -> Any:
        data, given = inputs[0], optional(inputs, 2)
        how = _text(attributes, "coordinate_transformation_mode", "half_pixel")
        if given is None or _text(attributes, "mode", "nearest") != "nearest" or how == "tf_crop_and_resize":
            return stock(bb, inputs, attributes)
        extents = extents_of(data)
        scales = dict(zip(attributes.get("axes", range(len(extents))), constant(given, "scales"), strict=True))
        if all(_is_even(scale, extents[axis]) for axis, scale in scales.items()):
            return stock(bb, inputs, attributes)
        rounding = ROUNDINGS[_text(attributes, "nearest_mode", "round_prefer_floor")]
        for axis, scale in scales.items():
            if scale != 1:
                if not isinstance(extents[axis], int):
                    raise ValueError(f"a symbolic dimension is scaled by {scale}, which doesn't divide it evenly")
                table = _nearest(np.float32(scale), extents[axis], how, rounding)
                data = bb.emit(R.take(data, relax.const(table), int(axis), mode="clip"))
        return data

    return convert


def _is_even(scale: float, extent: Any) -> bool:
    wanted = scale * extent if isinstance(extent, int) else scale
    return bool(abs(wanted - round(wanted)) < WHOLE)


def _nearest(scale: np.float32, extent: int, how: str, rounding: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The element that each one of the result is, by ONNX's formulas in float32, as ONNX Runtime computes them."""
    count = int(np.floor(scale * np.float32(extent)))
    place = np.arange(count, dtype=np.float32)
    half = np.float32(0.5)
    wide = (place + half) / scale
    shift = np.float32(extent) / np.float32(2) * (np.float32(1) - np.float32(count) / (scale * np.float32(extent)))
    formulas: dict[str, Callable[[], np.ndarray]] = {
        "half_pixel": lambda: wide - half,
        "half_pixel_symmetric": lambda: shift + wide - half,
        "pytorch_half_pixel": lambda: wide - half if count > 1 else np.zeros_like(place),
        "align_corners": lambda: place * np.float32(extent - 1) / np.float32(max(count - 1, 1)),
        "asymmetric": lambda: place / scale,
    }
    if how not in formulas:
        raise ValueError(f"coordinates by {how} are not supported")
    return rounding(formulas[how]()).clip(0, extent - 1).astype(np.int64)


def _text(attributes: Attributes, name: str, default: str) -> str:
    value = attributes.get(name, default)
    return value.decode() if isinstance(value, bytes) else str(value)
