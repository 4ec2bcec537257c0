"""The accuracy rule: no worse than unfused by more than a small factor, measured against float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

#: dtype -> (how many times the unfused error is allowed, tolerance relative to the reference's size); ``tf32`` is
#: float32 whose matrix products round their factors to eleven bits, as float16 has
RULES: dict[str, tuple[float, float]] = {
    "float64": (2.0, 1e-12),
    "float32": (2.0, 1e-5),
    "tf32": (2.0, 4e-2),
    "float16": (3.0, 1e-2),
    "bfloat16": (3.0, 8e-2),
    "float8_e4m3fn": (3.0, 5e-1),
    "float8_e5m2": (3.0, 1.0),
}


@dataclass(frozen=True)
class Accuracy:
    """How an output compares with float64, and whether that is good enough.

    Args:
        rmse: root mean square error over the elements that are finite in both.
        max_abs: largest absolute error.
        max_relative: largest error relative to the reference's element, where that isn't zero.
        baseline_rmse: ``rmse`` of the unfused baseline; None without one.
        allowed_rmse: what the rule allows.
        passed: whether the rule is met.
        reason: which part of the rule is broken; empty if none.
    """

    rmse: float
    max_abs: float
    max_relative: float
    baseline_rmse: float | None
    allowed_rmse: float
    passed: bool
    reason: str = ""

    def __str__(self) -> str:
        verdict = "passed" if self.passed else f"FAILED, {self.reason}"
        baseline = "" if self.baseline_rmse is None else f" (unfused {self.baseline_rmse:.2e})"
        return f"rmse {self.rmse:.2e}{baseline}, allowed {self.allowed_rmse:.2e}, max {self.max_abs:.2e}: {verdict}"


def compare(got: Array, reference64: Array, baseline32: Array | None, dtype: str) -> Accuracy:
    """Apply the rule to one output.

    ``rmse(got) <= factor · rmse(baseline) + tolerance/10``; NaN and infinities stand exactly where the
    reference has them, or where the baseline has them (the format's range ends before float64's);
    integers and booleans equal the reference, or the baseline (a tie that rounding decides).

    Args:
        got: the result, any dtype.
        reference64: the graph in float64, of the same shape.
        baseline32: the unfused result in the model's own precision; None, or one of another shape, counts for nothing.
        dtype: element type of the output, which picks factor and tolerance.
    """
    import numpy as np

    if baseline32 is not None and baseline32.shape != reference64.shape:
        baseline32 = None
    if got.shape != reference64.shape:
        return _failed(f"shape {got.shape} instead of {reference64.shape}")
    if "float" not in reference64.dtype.name:
        wrong = got != reference64
        if baseline32 is not None:
            wrong &= got != baseline32
        count = int(wrong.sum())
        return _failed(f"{count} of {got.size} elements differ") if count else Accuracy(0, 0, 0, None, 0, True)
    values, exact = got.astype(np.float64), reference64.astype(np.float64)
    unfused = None if baseline32 is None else baseline32.astype(np.float64)
    rmse, max_abs, max_relative = _errors(values, exact)
    factor, tolerance = RULES[dtype]
    allowed = tolerance / 10 * _root_mean_square(exact[np.isfinite(exact)])
    baseline_rmse = None
    if unfused is not None:
        baseline_rmse = _errors(unfused, exact)[0]
        allowed += factor * baseline_rmse
    misplaced = _kinds(values) != _kinds(exact)
    if unfused is not None:
        misplaced &= _kinds(values) != _kinds(unfused)
    reason = ""
    if misplaced.any():
        place = tuple(int(index) for index in np.argwhere(misplaced)[0])
        reason = f"NaN or infinity in the wrong place, first at {place}: {values[place]} instead of {exact[place]}"
    elif rmse > allowed:
        reason = "the error exceeds what the rule allows"
    return Accuracy(rmse, max_abs, max_relative, baseline_rmse, allowed, not reason, reason)


def _failed(reason: str) -> Accuracy:
    return Accuracy(float("inf"), float("inf"), float("inf"), None, 0.0, False, reason)


def _kinds(values: Array) -> Array:
    """0 where finite, else which kind of non-number."""
    import numpy as np

    return np.select([np.isnan(values), np.isposinf(values), np.isneginf(values)], [1, 2, 3], 0)


def _root_mean_square(values: Array) -> float:
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def _errors(values: Array, exact: Array) -> tuple[float, float, float]:
    """Root mean square, largest absolute and largest relative error where both are finite."""
    import numpy as np

    both = np.isfinite(values) & np.isfinite(exact)
    error = np.abs(values[both] - exact[both])
    size = np.abs(exact[both])
    relative = error[size > 0] / size[size > 0]
    return _root_mean_square(error), float(error.max(initial=0)), float(relative.max(initial=0))
