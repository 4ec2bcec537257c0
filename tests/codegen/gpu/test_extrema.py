"""Extrema of rows that hold a NaN: those that are stored themselves hand it on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from redfuser.algebra import derive
from redfuser.cascade.model import Cascade, Output
from redfuser.codegen.gpu import Builder
from redfuser.codegen.gpu.emission.emit import emit
from redfuser.codegen.gpu.schedule import candidates
from redfuser.tile import TileProgram, build, interpret
from tests.codegen.gpu.programs import Attention, gpu, program, random_inputs, softmax
from tests.emulator.emulator import poisoned, run_program
from tests.emulator.library import needs_compiler


def with_largest(cascade: Cascade) -> Cascade:
    """A softmax whose maxima are wanted as well."""
    largest = cascade.reductions[0]
    rows = (largest.axes[0],)
    output = Output(replace(largest.result, name="largest"), rows, rows, largest.value)
    return replace(cascade, outputs=(*cascade.outputs, output))


def asks(made: TileProgram) -> bool:
    return any("isnan" in script.text for script in emit(made))


@pytest.mark.parametrize(("strategy", "segments"), [("resident", 1), ("single-segment", 1), ("multi-segment", 3)])
def test_a_maximum_that_a_sum_shows_asks_for_no_nan(strategy: str, segments: int) -> None:
    cascade = softmax(8, 1536, "float32")
    assert not asks(program(cascade, strategy, segments, j=512))
    assert asks(program(with_largest(cascade), strategy, segments, j=512))


def test_nor_do_those_of_segments_of_attention() -> None:
    made = program(Attention(q_len=1, kv_len=600, dim=64, v_dim=64).cascade(), "multi-segment", 3, j=64)
    assert len(made.phases) == 2 and not asks(made)


@pytest.mark.slow
@needs_compiler
def test_a_maximum_that_is_stored_is_a_nan_where_its_row_holds_one(builder: Builder) -> None:
    cascade = with_largest(softmax(8, 700, "float32"))
    inputs = random_inputs(cascade)
    inputs["x"][3, 100] = np.nan
    for schedule in candidates(cascade, derive(cascade), gpu("h800")):
        made = build(cascade, derive(cascade), schedule)
        arrays = {**inputs, **{t.name: poisoned(t.shape, t.dtype) for t in made.outputs}}
        run_program(builder.build(made, gpu("h800")), arrays)
        exact = interpret(made, inputs, "float64")
        for tensor in made.outputs:
            np.testing.assert_array_equal(np.isnan(arrays[tensor.name]), np.isnan(exact[tensor.name]))
