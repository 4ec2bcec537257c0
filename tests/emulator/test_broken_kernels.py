"""Each fault is caught, under at least one schedule, and named for what it is."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.emulator import cases, emulator
from tests.emulator.broken import AMPERE, HOPPER, PRELUDE, SELECTIONS, Fault
from tests.emulator.library import needs_compiler

pytestmark = needs_compiler


def outcome(fault: Fault, source: str, schedule: emulator.Schedule) -> str:
    """An error, ``wrong result``, or nothing."""
    case = cases.case(fault.case)
    arrays = case.inputs()
    try:
        emulator.run(source, case.record.launches, arrays, schedule)
    except emulator.EmulationError as error:
        return str(error)
    got, expected, tolerance = case.expected(arrays)
    return "" if np.allclose(got.astype(np.float64), expected, 0, tolerance, equal_nan=True) else "wrong result"


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=f"{fault.case}: {fault.name}", marks=[pytest.mark.slow] if fault.slow else [])
        for fault in (*HOPPER, *AMPERE, *SELECTIONS)
    ],
)
def test_is_caught(fault: Fault) -> None:
    source = PRELUDE + fault.apply(cases.case(fault.case).source)
    expected = re.compile(fault.error or "wrong result", re.DOTALL)
    found = []
    for schedule in emulator.SCHEDULES:
        found.append(outcome(fault, source, schedule))
        if expected.search(found[-1]):
            return
    pytest.fail(f"expected {expected.pattern!r}, got {found}")
