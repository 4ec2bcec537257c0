"""Kernels as TileLang emits them agree with float64 under every schedule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.emulator import cases, emulator
from tests.emulator.library import needs_compiler
from tests.emulator.source import ASSEMBLY, host_source

pytestmark = needs_compiler


@pytest.mark.parametrize("name", cases.names())
def test_agrees_with_float64(name: str) -> None:
    case = cases.case(name)
    for schedule in emulator.SCHEDULES:
        arrays = case.inputs()
        emulator.run(case.source, case.record.launches, arrays, schedule)
        got, expected, tolerance = case.expected(arrays)
        np.testing.assert_allclose(got.astype(np.float64), expected, rtol=0, atol=tolerance, err_msg=str(schedule))


def test_some_blocks_of_a_grid() -> None:
    case = cases.case("layer_norm_sm80")
    (launch,) = case.record.launches
    whole, part = case.inputs(), case.inputs()
    emulator.run(case.source, [launch], whole)
    emulator.run(case.source, [replace(launch, blocks=(1,))], part)
    written = np.isfinite(part["Y"].astype(np.float32))
    assert 0 < written.sum() < written.size
    assert (part["Y"][written] == whole["Y"][written]).all()
    with pytest.raises(emulator.EmulationError, match="block number 99"):
        emulator.run(case.source, [replace(launch, blocks=(99,))], part)


def test_assembly_of_known_meaning_is_translated() -> None:
    (text,) = ASSEMBLY
    assert "asm" not in host_source(text) and "max_or_nan" in host_source(text)
