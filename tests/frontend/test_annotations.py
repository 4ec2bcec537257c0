"""Marks of TVM's builders: none is left for a code generator to warn of, and what they hold runs as before."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.frontend import lower
from tests.frontend.running import loaded, run, single


def test_nothing_is_printed_of_a_scatter(capfd: pytest.CaptureFixture[str]) -> None:
    feeds = {"x": np.zeros(4, np.float32), "at": np.array([2, 0, 2]), "add": np.array([1, 2, 4], np.float32)}
    lowered = lower(loaded(single("ScatterElements", feeds, reduction="add")))
    (result,) = run(lowered, feeds)
    assert result.tolist() == [2, 0, 5, 0]
    assert capfd.readouterr().err == ""
