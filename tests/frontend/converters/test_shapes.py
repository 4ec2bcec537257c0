"""Unsqueeze and Tile of static dimensions. Symbolic ones are in ``tests/frontend/test_sizes.py``."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.converters.checking import check, normal
from tests.frontend.running import single


def test_a_new_axis_that_is_a_number_and_no_list() -> None:
    x = normal(2, 3)
    check(single("Unsqueeze", {"x": x}, {"axes": np.array(1)}), {"x": x})


@pytest.mark.parametrize("repeats", [[1, 1], [3, 1], [2, 4]])
def test_tile(repeats: list[int]) -> None:
    x = normal(2, 3)
    check(single("Tile", {"x": x}, {"repeats": np.array(repeats)}), {"x": x})
