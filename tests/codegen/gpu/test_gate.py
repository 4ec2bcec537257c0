"""What a target can't run is refused before it is compiled."""

from __future__ import annotations

import pytest

from redfuser.codegen.gpu.gate import type_problem
from tests.codegen.gpu.programs import gpu, program, quantised_product


@pytest.mark.parametrize("kept", ["float8_e4m3fn", "float32"], ids=["in-memory", "inside"])
@pytest.mark.parametrize(
    ("target", "able"), [("a10", False), ("a100-80g", False), ("l40s", True), ("h800", True)], ids=str
)
def test_float8_is_refused_where_the_target_lacks_it(target: str, able: bool, kept: str) -> None:
    cascade = quantised_product(64, 64, 64, "float8_e4m3fn", 448.0, kept)
    problem = type_problem(program(cascade, "resident", i=64, n=64, j=64), gpu(target))
    assert (problem is None) == able
    if problem is not None:
        assert problem.code == "no-float8" and target in problem.text and "float8_e4m3fn" in problem.witness


def test_other_types_need_no_float8() -> None:
    cascade = quantised_product(64, 64, 64, "int8", 127.0)
    assert type_problem(program(cascade, "resident", i=64, n=64, j=64), gpu("a10")) is None
