"""Products, reshapes and quantisation."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.converters.checking import check, normal
from tests.frontend.running import single


@pytest.mark.parametrize("x", [np.zeros(4, np.float32), normal(64) * 3 + 2, -np.abs(normal(8))])
def test_dynamic_quantisation(x: np.ndarray) -> None:
    check(single("DynamicQuantizeLinear", {"x": x}, outputs=3), {"x": x})


def test_gemm() -> None:
    feeds = {"a": normal(3, 2), "b": normal(4, 3), "c": normal(4)}
    check(single("Gemm", feeds, transA=1, transB=1, alpha=0.5, beta=2.0), feeds)
    check(single("Gemm", {"a": feeds["a"], "b": normal(2, 4)}), {"a": feeds["a"], "b": normal(2, 4)})


def test_reshape_by_the_rules() -> None:
    x = normal(2, 3, 4)
    check(single("Reshape", {"x": x}, {"s": np.array([0, -1])}), {"x": x})
    empty = np.zeros((0, 3), np.float32)
    check(single("Reshape", {"x": empty}, {"s": np.array([3, 0])}, allowzero=1), {"x": empty})
