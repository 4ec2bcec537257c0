"""Kernels as TileLang emits them agree with float64 under every schedule."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator import cases, emulator
from tests.emulator.library import needs_compiler

pytestmark = needs_compiler


@pytest.mark.parametrize("name", cases.names())
def test_agrees_with_float64(name: str) -> None:
    case = cases.case(name)
    for schedule in emulator.SCHEDULES:
        arrays = case.inputs()
        emulator.run(case.source, case.record.launches, arrays, schedule)
        got, expected, tolerance = case.expected(arrays)
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=0, atol=tolerance, err_msg=str(schedule))
