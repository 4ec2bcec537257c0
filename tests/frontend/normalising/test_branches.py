"""An If with a known condition becomes its branch."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from redfuser.oracle.run import run_float64
from tests.frontend.normalising.graphs import X, branching, node, normalise, operators
from tests.frontend.running import graph_of


def branches(first: str, second: str) -> helper.NodeProto:
    """An If whose branches use the same inner name."""
    graphs = [
        helper.make_graph(
            [node("Abs", ["x"], "inner", "n"), node(operator, ["inner"], "r")],
            operator,
            [],
            [helper.make_tensor_value_info("r", TensorProto.FLOAT, None)],
        )
        for operator in (first, second)
    ]
    return helper.make_node("If", ["c"], ["y"], name="if", then_branch=graphs[0], else_branch=graphs[1])


def test_an_if_with_a_known_condition_becomes_its_branch() -> None:
    for condition, taken in ((True, "Exp"), (False, "Neg")):
        result = normalise(graph_of([branches("Exp", "Neg")], {"x": X}, ["y"], {"c": np.array(condition)}))
        assert operators(result)[:2] == ["Abs", taken]
        assert result.graph.node[0].name == "if/n"
    kept = normalise(graph_of([branches("Exp", "Neg")], {"x": X, "c": np.array(True)}, ["y"]))
    assert operators(kept) == ["If"]


def test_outputs_of_an_if_may_have_no_name() -> None:
    both = branches("Exp", "Neg")
    both.output.insert(0, "")
    for attribute in both.attribute:
        attribute.g.output.insert(0, helper.make_tensor_value_info("inner", TensorProto.FLOAT, None))
    result = normalise(graph_of([both], {"x": X}, ["y"], {"c": np.array(True)}))
    assert operators(result)[:2] == ["Abs", "Exp"]


@pytest.mark.parametrize("name", ["", "same"])
def test_branches_within_a_branch_keep_their_values_apart(name: str) -> None:
    inner = [branching([node(operator, ["x"], "r")], "r", name) for operator in ("Exp", "Neg")]
    inner[1].output[0] = "q"
    outer = branching([*inner, node("Sub", ["r_out", "q"], "s")], "s")
    proto = graph_of([outer], {"x": X}, ["s_out"], {"c": np.array(True)})
    result = normalise(proto)
    assert operators(result) == ["Exp", "Neg", "Sub", "Identity"]
    np.testing.assert_allclose(run_float64(result, {"x": X})["s_out"], np.exp(X.astype(np.float64)) + X)
