"""Device memory as numbers, and which of them are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def values_of(raw: bytes, tensor: Mapping[str, Any]) -> Array:
    """Device memory as numbers that NumPy has."""
    if tensor["table"] is not None:
        table = np.array([np.nan if value is None else value for value in tensor["table"]], np.float64)
        return table[np.frombuffer(raw, np.uint8)].reshape(tensor["shape"])
    if tensor["dtype"] == "bfloat16":
        bits = np.frombuffer(raw, np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).reshape(tensor["shape"])
    return np.frombuffer(raw, tensor["dtype"]).reshape(tensor["shape"])


def judge(got: Array, exact: Array, rounded: Array, where: Array, allowed: float) -> tuple[float, str]:
    """Root mean square error on the elements that were computed in float64, and what is wrong; empty if nothing.

    Args:
        rounded: the same in the kernel's own precision, whose infinities are as right as float64's.
        allowed: error.
    """
    values, wanted, other = (array[where].astype(np.float64) for array in (got, exact, rounded))
    if exact.dtype.kind in "biu":
        wrong = int(((values != wanted) & (values != other)).sum())
        return 0.0, f"{wrong} of {values.size} elements differ" if wrong else ""
    finite = np.isfinite(values) & np.isfinite(wanted)
    rmse = float(np.sqrt(np.mean(np.square(values[finite] - wanted[finite])))) if finite.any() else 0.0
    same = (~np.isfinite(values) & (values == wanted)) | (np.isnan(values) & np.isnan(wanted)) | finite
    same |= (values == other) | (np.isnan(values) & np.isnan(other))
    if not same.all():
        return rmse, f"NaN or infinity in the wrong place in {int((~same).sum())} of {same.size} elements"
    return rmse, "" if rmse <= allowed else f"the error is larger than {allowed:.2e}"
