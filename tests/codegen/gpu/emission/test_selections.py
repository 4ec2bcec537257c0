"""Selections as scripts: to be read, and what none can be written of."""

from __future__ import annotations

import pytest

from redfuser.codegen.gpu import Refused, emit
from redfuser.expr import PAIR
from tests.codegen.gpu.programs import program
from tests.golden import Golden
from tests.selections import routing, selection


def test_routing(golden: Golden) -> None:
    [script] = emit(program(routing(2048, 64, 6), "resident", i=8, l=64))
    golden.check("gpu_routing.txt", str(script).rstrip("\n"))


def test_a_list_that_is_not_empty_is_merged_with() -> None:
    [whole] = emit(program(selection(8, 256, 4, "float32", largest=False), "resident", l=256))
    [streamed] = emit(program(selection(8, 256, 4, "float32", largest=False), l=64))
    assert "merged" not in whole.text and "T.copy(list0_0_merged, list0_0)" in streamed.text
    assert "T.reduce_min(" in streamed.text and 'T.max_value("int64")' in streamed.text


def test_a_best_pair_is_one_extremum() -> None:
    [script] = emit(program(routing(2048, 128, 1), "resident", i=4, l=128))
    assert "T.reduce_max(max2_candidates" not in script.text and "for place" not in script.text
    assert script.text.count("T.reduce_max(") == 2, "of the scores, and of the pairs"


def test_segments_hand_on_integers() -> None:
    first, second = emit(program(selection(2, 5000, 6, "float16"), "multi-segment", 2, l=512))
    assert [tensor.dtype for tensor in first.parameters] == ["float16", "int64"]
    assert PAIR not in {tensor.dtype for tensor in second.parameters}
    assert "def pair(" in first.text and "def pair(" not in second.text, "helpers are defined where they are called"


@pytest.mark.parametrize("dtype", ["float64", "int64", "uint32"])
def test_types_that_no_pair_holds_are_refused(dtype: str) -> None:
    with pytest.raises(Refused, match=f"selections among {dtype}"):
        emit(program(selection(4, 9, 3, dtype), "resident"))


def test_tiles_of_one_candidate_are_refused() -> None:
    with pytest.raises(Refused, match="tiles of several candidates"):
        emit(program(selection(4, 9, 3, "float32"), l=1))
