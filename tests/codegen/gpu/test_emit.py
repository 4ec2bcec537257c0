"""Scripts to be read, and programs that can't become one."""

from __future__ import annotations

import pytest

from redfuser.codegen.gpu import Refused, emit
from tests.codegen.gpu.programs import Attention, program
from tests.golden import Golden


@pytest.mark.parametrize(("tile", "threads"), [(128, 256), (64, 128)])
def test_attention(tile: int, threads: int, golden: Golden) -> None:
    cascade = Attention(heads=4, groups=2, q_len=200, kv_len=300, dim=128, v_dim=128, mask="bool").cascade()
    options = {"threads": threads, "stages": 2}
    [script] = emit(program(cascade, options=options, i=tile, j=tile))
    golden.check(f"gpu_attention_{tile}.txt", str(script).rstrip("\n"))


def test_whole_tiles_need_no_guards() -> None:
    [script] = emit(program(Attention(q_len=128, kv_len=256).cascade(), i=128, j=128))
    assert "if_then_else(j_step" not in script.text and "if i" not in script.text


def test_a_tile_that_is_not_whole_on_chip_is_refused() -> None:
    with pytest.raises(Refused, match="tile-size"):
        emit(program(Attention().cascade(), i=96, j=64))
