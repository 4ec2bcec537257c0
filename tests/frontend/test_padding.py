"""Pad and LpNormalization against float64."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64
from tests.frontend.running import loaded, lower_and_run, single

X = np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect"])
def test_pads_all_axes(mode: str) -> None:
    proto = single("Pad", {"x": X}, {"pads": np.array([0, 1, 2, 1, 0, 1])}, opset=19, mode=mode)
    np.testing.assert_array_equal(lower_and_run(proto, {"x": X})[0], run_float64(proto, {"x": X})["y0"])


def test_pads_some_axes_and_cuts_others() -> None:
    constants = {"pads": np.array([2, -1, 0, 3]), "value": np.float32(-np.inf), "axes": np.array([-1, 1])}
    got = lower_and_run(single("Pad", {"x": X}, constants, opset=19), {"x": X})[0]
    expected = np.pad(X[:, 1:], [(0, 0), (0, 3), (2, 0)], constant_values=-np.inf)
    np.testing.assert_array_equal(got, expected)


def test_wrapping_around_is_refused() -> None:
    proto = single("Pad", {"x": X}, {"pads": np.array([0, 0, 1, 0, 0, 0])}, opset=19, mode="wrap")
    with pytest.raises(UnsupportedOperatorError, match="mode wrap"):
        lower(loaded(proto))


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_lp_normalization_keeps_zeros(p: int, axis: int) -> None:
    x = X.copy()
    x[:, 1] = 0
    x[0] = 0
    got = lower_and_run(single("LpNormalization", {"x": x}, opset=22, p=p, axis=axis), {"x": x})[0]
    wide = x.astype(np.float64)
    norm = np.abs(wide).sum(axis, keepdims=True) if p == 1 else np.sqrt((wide**2).sum(axis, keepdims=True))
    np.testing.assert_allclose(got, wide / np.where(norm == 0, 1, norm), rtol=1e-5)
