"""A model against float64."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto

from redfuser.frontend import lower
from redfuser.oracle.run import run_float64
from tests.frontend.running import loaded, run

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    """float32 from the normal distribution."""
    return RNG.standard_normal(shape).astype(np.float32)


def check(proto: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Every output is what float64 gives, in the type that ONNX says."""
    lowered = lower(loaded(proto))
    got, expected = run(lowered, feeds), run_float64(proto, feeds)
    for spec, value in zip(lowered.outputs, got, strict=True):
        assert str(value.dtype) == spec.dtype
        tolerance = {"float32": 1e-5, "float16": 2e-3}.get(spec.dtype, 0)
        np.testing.assert_allclose(value, expected[spec.name], rtol=tolerance, atol=tolerance)
    return got
