"""Symbolic dimensions through the importer: shapes computed from shapes, slices, ranges, gathers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.oracle.run import run_onnxruntime
from redfuser.signature import ANY_SIZE, DimRange, DimSum
from tests.frontend.running import graph_of, loaded, run
from tests.frontend.sized import check, ramp

FLOAT = TensorProto.FLOAT
node = helper.make_node


def test_a_reshape_to_what_shape_nodes_compute() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["n"]),
        node("Unsqueeze", ["n", "axes"], ["n1"]),
        node("Mul", ["n1", "two"], ["double"]),
        node("Concat", ["minus", "double"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {
        "one": np.array(1), "axes": np.array([0]), "two": np.array([2]), "minus": np.array([-1]),
    }  # fmt: skip
    shape = ["batch", "seq", 6]
    lowered = check(nodes, {"x": (FLOAT, shape)}, [{"x": ramp(2, 5, 6)}, {"x": ramp(1, 1, 6)}], constants)
    assert lowered.outputs[0].shape[1] != "seq"


def test_what_remains_of_a_product_of_dimensions() -> None:
    nodes = [
        node("Shape", ["x"], ["b"], start=0, end=1),
        node("Shape", ["x"], ["n"], start=1, end=2),
        node("Mul", ["b", "four"], ["heads"]),
        node("Concat", ["heads", "one", "n"], ["merged"], axis=0),
        node("Concat", ["b", "four", "minus", "n"], ["apart"], axis=0),
        node("Reshape", ["x", "merged"], ["flat"]),
        node("Reshape", ["flat", "apart"], ["row"]),
        node("Transpose", ["row"], ["column"], perm=[0, 1, 3, 2]),
        node("Add", ["row", "column"], ["y"]),
    ]
    constants = {"four": np.array([4]), "one": np.array([1]), "minus": np.array([-1])}
    check(nodes, {"x": (FLOAT, ["batch", "seq", 4])}, [{"x": ramp(2, 5, 4)}, {"x": ramp(1, 1, 4)}], constants)


def test_an_expand_that_keeps_where_it_is_told_minus_one() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Concat", ["minus", "s"], ["wanted"], axis=0),
        node("Equal", ["wanted", "minus"], ["is_free"]),
        node("Where", ["is_free", "three", "wanted"], ["target"]),
        node("Expand", ["x", "target"], ["y"]),
    ]
    constants = {"minus": np.array([-1]), "three": np.array([3])}
    check(nodes, {"x": (FLOAT, ["a", "b"])}, [{"x": ramp(2, 5)}, {"x": ramp(1, 1)}], constants)


def test_positions_as_numbers_and_a_causal_mask() -> None:
    nodes = [
        node("Shape", ["x"], ["n"], start=0, end=1),
        node("Squeeze", ["n"], ["length"]),
        node("Range", ["zero", "length", "one"], ["positions"]),
        node("Unsqueeze", ["positions", "first"], ["rows"]),
        node("LessOrEqual", ["positions", "rows"], ["seen"]),
        node("Cast", ["length"], ["count"], to=FLOAT),
        node("Div", ["x", "count"], ["scaled"]),
        node("Where", ["seen", "scaled", "low"], ["y"]),
    ]
    constants = {
        "zero": np.array(0), "one": np.array(1), "first": np.array([1]), "low": np.array(-9, np.float32)
    }  # fmt: skip
    check(nodes, {"x": (FLOAT, ["n", "n"])}, [{"x": ramp(4, 4)}, {"x": ramp(1, 1)}], constants)


@pytest.mark.parametrize(("starts", "ends"), [([1], [2**31]), ([-2], [2**62]), ([0], [-1]), ([0], [2])])
def test_slices_of_a_symbolic_dimension(starts: list[int], ends: list[int]) -> None:
    constants = {"starts": np.array(starts), "ends": np.array(ends), "axes": np.array([1])}
    nodes = [node("Slice", ["x", "starts", "ends", "axes"], ["y"])]
    feeds = [{"x": ramp(2, 7)}, {"x": ramp(1, 2)}]
    check(nodes, {"x": (FLOAT, ["a", "b"])}, feeds, constants, dims={"b": DimRange(2, 9)})


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(-1, 2**63 - 1, 1), (-3, -1, 1), (-9, 9, 2), (-1, -(2**63), -1), (4, 0, -2), (-2, -9, -1), (0, -1, 3)],
)
def test_slices_of_a_static_dimension_beside_a_symbolic_one(start: int, end: int, step: int) -> None:
    """TVM took -1 for the place before the first, which is the last one of the row above."""
    constants = {name: np.array([value]) for name, value in (("from", start), ("to", end), ("by", step), ("axis", 1))}
    nodes = [node("Slice", ["x", "from", "to", "axis", "by"], ["y"])]
    check(nodes, {"x": (FLOAT, ["a", 5])}, [{"x": ramp(3, 5)}, {"x": ramp(1, 5)}], constants)


def test_slices_of_both_a_static_and_a_symbolic_dimension() -> None:
    constants = {"from": np.array([-2, -1]), "to": np.array([9, 2**40]), "axes": np.array([1, 0])}
    nodes = [node("Slice", ["x", "from", "to", "axes"], ["y"])]
    feeds = [{"x": ramp(3, 5)}, {"x": ramp(1, 5)}]
    check(nodes, {"x": (FLOAT, ["a", 5])}, feeds, constants)


def test_the_last_element_by_a_negative_index() -> None:
    nodes = [node("Gather", ["x", "last"], ["y"], axis=1)]
    feeds = [{"x": ramp(2, 7, 3)}, {"x": ramp(1, 1, 3)}]
    check(nodes, {"x": (FLOAT, ["a", "b", 3])}, feeds, {"last": np.array(-1)})


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_the_place_of_an_extremum_of_any_length(operator: str) -> None:
    feeds = [{"x": np.sin(ramp(*shape))} for shape in ((2, 7), (1, 1), (3, 50))]
    check([node(operator, ["x"], ["y"], axis=1, keepdims=0)], {"x": (FLOAT, ["a", "b"])}, feeds)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_running_sums_of_any_length(axis: int) -> None:
    feeds = [{"x": ramp(*shape) - 9} for shape in ((2, 7, 5), (1, 1, 5), (3, 20, 5))]
    constants = {"axis": np.array(axis)}
    check([node("CumSum", ["x", "axis"], ["y"], reverse=1)], {"x": (FLOAT, ["a", "b", 5])}, feeds, constants)


@pytest.mark.parametrize("target", [[3, 1, 1], [1, 1]])
def test_an_expand_to_constants(target: list[int]) -> None:
    nodes = [node("Abs", ["x"], ["z"]), node("Expand", ["z", "target"], ["y"])]
    check(nodes, {"x": (FLOAT, ["a", "b"])}, [{"x": ramp(2, 5)}, {"x": ramp(1, 1)}], {"target": np.array(target)})


def test_repetitions_by_a_size() -> None:
    nodes = [
        node("Shape", ["x"], ["n"], start=0, end=1),
        node("Concat", ["n", "two", "one"], ["repeats"], axis=0),
        node("Tile", ["table", "repeats"], ["tiled"]),
        node("Tile", ["x", "twice"], ["double"]),
        node("Add", ["tiled", "double"], ["y"]),
    ]
    constants = {
        "two": np.array([2]), "one": np.array([1]), "table": ramp(2, 3, 4), "twice": np.array([2, 2, 1]),
    }  # fmt: skip
    feeds = [{"x": ramp(2, 3, 4)}, {"x": ramp(1, 3, 4)}, {"x": ramp(5, 3, 4)}]
    check(nodes, {"x": (FLOAT, ["n", 3, 4])}, feeds, constants)


def test_a_cut_and_a_cast_of_symbolic_dimensions() -> None:
    nodes = [
        node("Pad", ["x", "amounts"], ["longer"]),
        node("Cast", ["longer"], ["bytes"], to=TensorProto.INT8),
        node("Cast", ["bytes"], ["y"], to=FLOAT),
    ]
    feeds = [{"x": ramp(2, 7)}, {"x": ramp(1, 2)}]
    check(nodes, {"x": (FLOAT, ["a", "b"])}, feeds, {"amounts": np.array([0, 2, 1, -1])})


def test_unnamed_dimensions_are_distinct() -> None:
    proto = graph_of([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, [None, None, 4])}, ["y"], {"w": ramp(4, 2)})
    lowered = lower(loaded(proto))
    assert lowered.dims == {"x.0": ANY_SIZE, "x.1": ANY_SIZE} and lowered.outputs[0].shape == ("x.0", "x.1", 2)
    feed = {"x": ramp(2, 5, 4)}
    np.testing.assert_allclose(run(lowered, feed)[0], run_onnxruntime(proto, feed, 1)["y"], rtol=1e-6)


def test_dimensions_that_operands_make_the_same() -> None:
    """Once one is known as a sum of others, it stays one: of whatever these turn out to be."""
    inputs: dict[str, tuple[int, list[int | str]]] = {"x": (FLOAT, ["a"]), "z": (FLOAT, ["b"]), "w": (FLOAT, ["c"])}
    nodes = [
        node("Concat", ["x", "z"], ["joined"], axis=0),
        node("Add", ["joined", "w"], ["sum"]),
        node("Add", ["x", "z"], ["twice"]),
        node("Concat", ["sum", "twice"], ["y"], axis=0),
    ]
    feeds = [{"x": ramp(n), "z": ramp(n), "w": ramp(2 * n)} for n in (1, 3)]
    lowered = check(nodes, inputs, feeds, {})
    assert lowered.sums == {"b": DimSum({"a": 1}), "c": DimSum({"a": 2})}
    assert lowered.inputs[2].shape == ("c",) and str(lowered.sums["c"]) == "2 * a"


@pytest.mark.parametrize(
    ("combine", "shape", "extents"),
    [
        (node("Where", ["condition", "x", "x"], ["y"]), ["n"], "6 and n"),
        (node("MatMul", ["x", "table"], ["y"]), [2, "n"], "n and 6"),
        (node("Add", ["x", "table"], ["y"]), ["n", "m", 2], "m and 6"),
    ],
)
def test_operands_that_fit_for_some_sizes_only_are_refused(
    combine: NodeProto, shape: Sequence[int | str], extents: str
) -> None:
    constants = {"table": ramp(6, 2), "condition": np.arange(6) > 2}
    with pytest.raises(
        UnsupportedOperatorError, match=f"only if the symbolic dimensions make {extents} the same"
    ) as caught:
        lower(loaded(graph_of([combine], {"x": (FLOAT, shape)}, ["y"], constants)))
    assert "--dim n=N" in caught.value.hint


def test_an_operator_that_needs_a_static_axis_says_which_dimension_to_fix() -> None:
    norm = [node("LayerNormalization", ["x", "scale"], ["y"])]
    proto = graph_of(norm, {"x": (FLOAT, ["a", "b"])}, ["y"], {"scale": ramp(4)})
    with pytest.raises(UnsupportedOperatorError, match=r"LayerNormalization .* dimension b must be fixed") as caught:
        lower(loaded(proto))
    assert "--dim b=N" in caught.value.hint
