"""Printed programs, to be read."""

from __future__ import annotations

import pytest

from tests.golden import Golden
from tests.tile.build import STRATEGIES, Attention, Rows, program


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_attention(strategy: str, golden: Golden) -> None:
    case = Attention(heads=4, groups=2, q_len=100, kv_len=200, dim=32, v_dim=32, mask="bool", guard=True)
    segments = 2 if strategy == "multi-segment" else 1
    golden.check(f"tile_attention_{strategy}.txt", str(program(case.cascade(), strategy, segments, i=64, j=64)))


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
def test_rows(name: str, golden: Golden) -> None:
    golden.check(f"tile_{name}.txt", str(program(getattr(Rows(), name)(), "resident")))
