"""Trial inputs: what they cover, and how far a nudge goes."""

from __future__ import annotations

import numpy as np

from redfuser.tile.trials import NUDGE, as_tf32, nudged


def test_a_nudge_is_a_few_roundings_of_every_float32() -> None:
    inputs = {"x": np.linspace(-3, 5, 99, dtype=np.float32), "n": np.arange(4)}
    moved = nudged(inputs)
    relative = np.abs(moved["x"] / inputs["x"].astype(np.float64) - 1)
    np.testing.assert_allclose(relative, NUDGE * 2.0**-24, rtol=1e-6)
    assert moved["n"] is inputs["n"] and moved["x"].dtype == np.float64


def test_tf32_keeps_eleven_bits() -> None:
    largest = np.finfo(np.float32).max
    x = np.array([1 + 2.0**-11, -(1 + 2.0**-10), 1 + 2.0**-12, largest, -np.inf, np.nan], np.float32)
    found = as_tf32({"x": x, "n": np.arange(2)})["x"]
    np.testing.assert_array_equal(
        found, np.array([1 + 2.0**-10, -(1 + 2.0**-10), 1, largest, -np.inf, np.nan], np.float32)
    )
