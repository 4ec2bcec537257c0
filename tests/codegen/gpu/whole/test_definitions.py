"""A tile program is held to its cascade's definition, at the corners of its rows."""

from __future__ import annotations

from dataclasses import replace

from tests.codegen.gpu.programs import program, quantised_product, softmax
from tests.codegen.gpu.whole.definitions import differences


def test_what_a_cascade_becomes_is_its_definition() -> None:
    cascade = softmax(70, 200, "float16")
    assert not list(differences(cascade, program(cascade, "resident", i=16, j=64)))


def test_another_program_is_found() -> None:
    """Of another scale: its first row differs, and its last."""
    cascade, other = (quantised_product(40, 96, 24, "int8", largest) for largest in (127.0, 126.0))
    made = program(other, "resident", i=16, n=8, j=32)
    assert not list(differences(other, made))
    found = list(differences(cascade, made))
    assert found and all("y differs" in problem for problem in found)


def test_rows_that_are_left_out_are_found() -> None:
    cascade = softmax(70, 200, "float16")
    made = program(cascade, "resident", i=16, j=64)
    nothing = replace(made, phases=tuple(replace(phase, body=()) for phase in made.phases))
    assert any("isn't written" in problem for problem in differences(cascade, nothing))
