"""Names are kept, and those written into a graph are new."""

from __future__ import annotations

import numpy as np
import pytest

from redfuser.oracle.run import run_float64
from tests.frontend.normalising.graphs import X, branching, node, normalise
from tests.frontend.running import graph_of


def test_names_are_kept_or_made_unique() -> None:
    nodes = [node("Relu", ["x"], "a", "same"), node("Abs", ["a"], "b", "same"), node("Neg", ["b"], "c", "Exp_3")]
    proto = graph_of([*nodes, node("Exp", ["c"], "y")], {"x": X}, ["y"])
    assert [each.name for each in normalise(proto).graph.node] == ["same", "same_1", "Exp_3", "Exp_3_1"]


@pytest.mark.parametrize("taken_first", [True, False])
def test_names_written_into_the_graph_are_none_of_the_model_s(taken_first: bool) -> None:
    for written, taken in (
        (branching([node("Neg", ["x"], "r")], "r", "n"), "n/r"),
        (node("Swish", ["x"], "r_out", "n"), "n/Function_SwishV24_alpha"),
    ):
        nodes = [node("Exp", ["x"], taken), written]
        nodes = [*(nodes if taken_first else nodes[::-1]), node("Sub", ["r_out", taken], "y")]
        proto = graph_of(nodes, {"x": X}, ["y"], {"c": np.array(True)}, opset=24)
        expected = run_float64(proto, {"x": X})["y"]
        np.testing.assert_allclose(run_float64(normalise(proto), {"x": X})["y"], expected, rtol=1e-6)


def test_new_indices_get_a_name_of_their_own() -> None:
    nodes = [
        node("Exp", ["x"], "g/indices"),
        node("Gather", ["x", "i"], "z", "g"),
        node("Add", ["z", "g/indices"], "y"),
    ]
    result = normalise(graph_of(nodes, {"x": X}, ["y"], {"i": np.array([-1, 0])}))
    np.testing.assert_allclose(run_float64(result, {"x": X})["y"], np.exp(X.astype(np.float64)) + X[::-1])
