"""Scatters at indices that count from the end, constant or not, and at ones that leave the data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from redfuser.errors import ModelError
from redfuser.frontend import lower
from redfuser.oracle.run import run_onnxruntime
from tests.frontend.converters.checking import normal
from tests.frontend.running import graph_of, loaded, lower_and_run, run, single

X = normal(3, 4)
TUPLES, ROWS = np.array([[-1, 0], [0, -4], [-2, 3]]), np.array([[-1, 0, 1, -2], [2, -3, 0, 1]])


def scatter(operator: str, indices: np.ndarray, constant: bool) -> tuple[ModelProto, dict[str, np.ndarray]]:
    updates = normal(*(indices.shape if operator == "ScatterElements" else indices.shape[:-1]))
    feeds = {"x": X, "i": indices, "u": updates}
    if not constant:
        return single(operator, feeds), feeds
    node = single(operator, feeds).graph.node[0]
    del feeds["i"]
    return graph_of([node], feeds, ["y0"], {"i": indices}), feeds


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("operator", "indices"), [("ScatterND", TUPLES), ("ScatterElements", ROWS)])
def test_negative_indices_count_from_the_end(operator: str, indices: np.ndarray, constant: bool) -> None:
    proto, feeds = scatter(operator, indices, constant)
    (got,) = lower_and_run(proto, feeds)
    np.testing.assert_array_equal(got, run_onnxruntime(proto, feeds, 1)["y0"])


def test_they_count_from_the_end_of_any_number_of_rows() -> None:
    node = single("ScatterND", {"x": X, "i": TUPLES, "u": np.zeros(3, np.float32)}).graph.node[0]
    shapes: dict[str, tuple[int, Sequence[int | str]]] = {"x": (TensorProto.FLOAT, ["n", 4]), "u": (1, [3])}
    proto = graph_of([node], shapes, ["y0"], {"i": TUPLES})
    lowered = lower(loaded(proto))
    for x in (X, normal(7, 4)):
        feeds = {"x": x, "u": normal(3)}
        np.testing.assert_array_equal(run(lowered, feeds)[0], run_onnxruntime(proto, feeds, 1)["y0"])


@pytest.mark.parametrize(("operator", "indices"), [("ScatterND", TUPLES), ("ScatterElements", ROWS)])
def test_indices_outside_never_write_beyond_the_data(operator: str, indices: np.ndarray) -> None:
    """ONNX calls them an error. Constant ones are refused; others write to the nearest place that there is."""
    proto, feeds = scatter(operator, indices * 1000, False)
    (got,) = lower_and_run(proto, feeds)
    assert set(got.reshape(-1).tolist()) <= {*X.reshape(-1).tolist(), *feeds["u"].reshape(-1).tolist()}
    with pytest.raises(ModelError, match="an index outside its data's shape"):
        lower(loaded(scatter(operator, indices * 1000, True)[0]))
