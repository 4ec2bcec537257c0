"""Products of bytes apart from what makes their left factor: found, refused, and the same function as before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade
from redfuser.expr import cast
from redfuser.extents import Dim, size_of
from redfuser.targets import CpuTarget, load_target
from redfuser.tile import Schedule, build, default_schedule, interpret, verify
from redfuser.tile.strategies.apart import APART, find_factors
from tests.tile.build import quantised_product


def processor(name: str) -> CpuTarget:
    target = load_target(name)
    assert isinstance(target, CpuTarget)
    return target


def inputs(cascade: Cascade) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(3)
    x, w = cascade.inputs
    data = generator.standard_normal(x.shape, dtype=np.float32)
    data[2] = 0  # no scale: nothing divides by it but zero
    return {x.name: data, w.name: generator.integers(-128, 128, w.shape).astype(w.dtype)}


@pytest.mark.parametrize(("rows", "columns", "chunk"), [(20, 48, 10), (5, 17, 33), (16, 32, 7)])
def test_two_phases_compute_what_one_did(rows: int, columns: int, chunk: int) -> None:
    cascade = quantised_product(rows, 33, columns)
    derivation = derive(cascade)
    schedule = Schedule("resident", (("i", min(16, rows)), ("j", 16), ("l", chunk)), options=((APART, 1),))
    apart, together = (build(cascade, derivation, s) for s in (schedule, replace(schedule, options=())))
    verify(apart)
    assert len(apart.phases) == 2 and [t.dtype for t in apart.workspaces] == ["int8", "float32"]
    given = inputs(cascade)
    np.testing.assert_array_equal(interpret(apart, given)["y"], interpret(together, given)["y"])


def test_a_factor_that_is_no_byte_is_refused() -> None:
    cascade = quantised_product(8, 16, 16)
    *earlier, last = cascade.reductions
    wide = replace(last, map=cast(last.map, "float32"), result=replace(last.result, dtype="float32"))
    assert find_factors(cascade) is not None
    assert find_factors(replace(cascade, reductions=(*earlier, wide))) is None


def test_only_processors_that_multiply_bytes_take_two_phases() -> None:
    cascade = quantised_product(512, 256, 96)
    derivation = derive(cascade)
    schedules = [
        default_schedule(cascade, derivation, processor(name)).schedule
        for name in ("cpu-avx512", "cpu-avx2", "cpu-x86-64", "cpu-aarch64")
    ]
    for chosen in schedules[:2]:
        assert dict(chosen.options) == {APART: 1} and dict(chosen.tiles)["j"] == 48
    assert not any(APART in dict(lesser.options) for lesser in schedules[2:])


def test_rows_may_be_open_and_what_is_summed_or_multiplied_may_not() -> None:
    """Blocks of an open number of rows are no higher than few rows fill."""
    size = size_of(Dim("size", 1, 4096))
    cascade = quantised_product(size, 256, 96)
    assert find_factors(cascade) is not None
    chosen = default_schedule(cascade, derive(cascade), processor("cpu-avx512")).schedule
    assert dict(chosen.options) == {APART: 1} and dict(chosen.tiles)["i"] == 64
    assert find_factors(quantised_product(512, size, 96)) is None
    assert find_factors(quantised_product(512, 256, size)) is None
