"""How loops are put around statements."""

from __future__ import annotations

import re

import pytest

from redfuser.codegen.cpu import generate
from tests.codegen.cpu.programs import assert_matches, target
from tests.tile.build import Attention, program

KEYS = 32


def accumulators(queries: int) -> list[int]:
    """Sizes of the arrays of partial sums and maxima in an attention to tiles of :data:`KEYS` keys."""
    attention = Attention(q_len=queries, kv_len=256, dim=16, v_dim=16, mask="none").cascade()
    kernel = generate(program(attention, "single-segment", i=queries, j=KEYS), target("cpu-avx2"))
    return [int(size) for size in re.findall(r"lanes\w* = T\.alloc_\w+\(\((\d+),\)", kernel.script())]


def test_rows_of_a_matrix_are_summed_one_after_another() -> None:
    """So that their partial sums stay in registers: those of all rows together are as large as the matrix."""
    found = accumulators(queries=1)
    assert found and max(found) <= KEYS


@pytest.mark.parametrize("keys", [1, 31, 33, 200])
@pytest.mark.parametrize("dim", [3, 16, 100])
def test_rows_summed_one_after_another_are_right(keys: int, dim: int) -> None:
    attention = Attention(q_len=1, kv_len=keys, dim=dim, v_dim=dim)
    assert_matches(program(attention.cascade(), "single-segment", j=KEYS), attention.inputs())
