"""Gathers, whose indices are known or come with the call."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.frontend import lower
from tests.frontend.converters.checking import check, normal
from tests.frontend.running import loaded, lower_and_run, single


def test_run_time_indices_wrap_once_and_never_leave_the_data() -> None:
    x, indices = normal(4, 3), np.array([[0, -1], [3, -4]])
    check(single("Gather", {"x": x, "i": indices}), {"x": x, "i": indices})
    beyond = np.array([[4, -5], [1 << 40, -(1 << 40)]])
    got = lower_and_run(single("Gather", {"x": x, "i": beyond}), {"x": x, "i": beyond})[0]
    assert np.array_equal(got, x[np.array([[3, 0], [3, 0]])])


@pytest.mark.parametrize(
    ("operator", "indices", "attributes"),
    [
        ("Gather", [[0, 1, 2]], {"axis": 1}),
        ("Gather", [2, 0], {"axis": 1}),
        ("Gather", [2, 1, 0], {"axis": -1}),
        ("Gather", 1, {"axis": 0}),
        ("Gather", [0, 2, 1], {"axis": 1}),
        ("GatherElements", [[2, 1, 0], [2, 1, 0], [2, 1, 0], [2, 1, 0]], {"axis": 1}),
        ("GatherElements", [[0, 1, 1]], {"axis": 0}),
        ("GatherND", [[[0, 0], [0, 1]], [[1, 0], [1, 1]]], {}),
        ("GatherND", [[3], [0]], {}),
        ("GatherND", [[0], [1], [2], [0]], {"batch_dims": 1}),
    ],
)
@pytest.mark.parametrize("is_constant", [True, False])
def test_gathers(operator: str, indices: list[int], attributes: dict[str, int], is_constant: bool) -> None:
    x, table = normal(4, 3), np.array(indices)
    feeds = {"x": x} if is_constant else {"x": x, "i": table}
    check(single(operator, feeds, {"i": table} if is_constant else None, **attributes), feeds)


def test_affine_tables_become_plain_loads() -> None:
    x = normal(4, 6)
    for table, loads_table in (([4, 2, 0], False), ([0, 1, 3], True)):
        lowered = lower(loaded(single("Gather", {"x": x}, {"i": np.array(table)}, axis=1)))
        (function,) = [f for v, f in lowered.module.functions_items() if v.name_hint != "main"]
        assert (len(function.params) == 3) == loads_table
