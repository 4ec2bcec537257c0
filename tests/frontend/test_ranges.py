"""Which sizes of a symbolic dimension a model takes: what tables, counts and sums of dimensions leave."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from redfuser.errors import UnsupportedOperatorError, UsageError
from redfuser.frontend import lower
from redfuser.signature import ANY_SIZE, DimRange
from tests.frontend.running import graph_of, loaded, run
from tests.frontend.sized import check, ramp

FLOAT = TensorProto.FLOAT
node = helper.make_node


def positions() -> list[NodeProto]:
    """The first rows of a table of eight."""
    return [
        node("Shape", ["x"], ["n"], start=0, end=1),
        node("Slice", ["table", "zero", "n"], ["rows"]),
        node("Add", ["x", "rows"], ["y"]),
    ]


TABLE = {"table": ramp(8, 3), "zero": np.array([0])}


def test_a_table_limits_a_dimension_that_was_given_no_range() -> None:
    lowered = check(positions(), {"x": (FLOAT, ["n", 3])}, [{"x": ramp(8, 3)}, {"x": ramp(1, 3)}], TABLE)
    assert lowered.dims == {"n": DimRange(1, 8)}


def test_a_range_beyond_the_table_is_refused() -> None:
    proto = graph_of(positions(), {"x": (FLOAT, ["n", 3])}, ["y"], TABLE)
    with pytest.raises(UsageError, match="sizes of 1:8 alone") as caught:
        lower(loaded(proto), {"n": DimRange(1, 9)})
    assert caught.value.hint == "compile with --dim n=1:8"


@pytest.mark.parametrize(("last", "taken"), [("positions", DimRange(1, 8)), ("further", DimRange(1, 6))])
def test_counted_positions_end_with_their_table(last: str, taken: DimRange) -> None:
    """As models with learned positions count them; some begin at 2."""
    nodes = [
        node("Shape", ["x"], ["size"], end=1),
        node("Squeeze", ["size"], ["count"]),
        node("Range", ["zero", "count", "one"], ["counted"]),
        node("Unsqueeze", ["counted", "first"], ["positions"]),
        node("Add", ["positions", "two"], ["further"]),
        node("Gather", ["table", last], ["rows"]),
        node("Add", ["rows", "x"], ["y"]),
    ]
    numbers = {"zero": np.array(0), "one": np.array(1), "two": np.array(2), "first": np.array([0])}
    constants = {**numbers, "table": ramp(8, 3)}
    feeds = [{"x": ramp(taken.high, 3)}, {"x": ramp(1, 3)}]
    assert check(nodes, {"x": (FLOAT, ["n", 3])}, feeds, constants).dims == {"n": taken}
    with pytest.raises(UsageError, match=f"sizes of {taken} alone"):
        lower(loaded(graph_of(nodes, {"x": (FLOAT, ["n", 3])}, ["y"], constants)), {"n": DimRange(1, 9)})


def test_positions_that_come_with_the_call_limit_nothing() -> None:
    nodes = [node("Gather", ["table", "at"], ["y"])]
    feeds = [{"at": np.array([7, 0, 3])}]
    assert check(nodes, {"at": (TensorProto.INT64, ["n"])}, feeds, {"table": ramp(8, 3)}).dims == {"n": ANY_SIZE}


def test_positions_that_are_doubled_again_and_again_are_followed_once() -> None:
    """Each way through such sums apart would be 2 ** 50 of them."""
    doubled = [node("Add", [f"d{n}", f"d{n}"], [f"d{n + 1}"]) for n in range(50)]
    nodes = [*doubled, node("Gather", ["table", "d50"], ["y"])]
    feeds = [{"d0": np.array([0, 0])}]
    assert check(nodes, {"d0": (TensorProto.INT64, ["n"])}, feeds, {"table": ramp(8, 3)}).dims == {"n": ANY_SIZE}


def test_the_best_few_need_as_many() -> None:
    best = [node("TopK", ["x", "k"], ["y", "places"], axis=1)]
    feeds = [{"x": np.sin(ramp(*shape))} for shape in ((2, 4), (1, 4), (3, 50))]
    lowered = check(best, {"x": (FLOAT, ["a", "b"])}, feeds, {"k": np.array([4])})
    assert lowered.dims == {"a": ANY_SIZE, "b": DimRange(4, ANY_SIZE.high)}
    with pytest.raises(UsageError, match="--dim b=1:9: the model takes sizes of 4:65536 alone") as caught:
        lower(loaded(graph_of(best, {"x": (FLOAT, ["a", "b"])}, ["y"], {"k": np.array([4])})), {"b": DimRange(1, 9)})
    assert caught.value.hint == "compile with --dim b=4:9"


def test_two_limits_of_one_dimension() -> None:
    nodes = [*positions()[:-1], node("Add", ["x", "rows"], ["z"]), node("TopK", ["z", "k"], ["y", "at"], axis=0)]
    constants = {**TABLE, "k": np.array([2])}
    lowered = check(nodes, {"x": (FLOAT, ["n", 3])}, [{"x": ramp(8, 3)}, {"x": ramp(2, 3)}], constants)
    assert lowered.dims == {"n": DimRange(2, 8)}


def test_a_sum_keeps_within_its_range() -> None:
    inputs: dict[str, tuple[int, list[int | str]]] = {"x": (FLOAT, ["a"]), "z": (FLOAT, ["b"]), "w": (FLOAT, ["c"])}
    nodes = [node("Concat", ["x", "z"], ["joined"], axis=0), node("Add", ["joined", "w"], ["y"])]
    model = loaded(graph_of(nodes, inputs, ["y"]))
    assert lower(model, {"c": DimRange(3, 9)}).dims == {"a": DimRange(0, 8), "b": DimRange(1, 9), "c": DimRange(3, 9)}
    with pytest.raises(UsageError, match=r"dimension 'c' has to be a \+ b, which it isn't for any sizes"):
        lower(model, {"a": DimRange(5, 6), "b": DimRange(5, 6), "c": DimRange(1, 9)})


def test_dimensions_that_are_no_sum_of_others_are_refused() -> None:
    inputs: dict[str, tuple[int, list[int | str]]] = {"x": (FLOAT, ["a"]), "z": (FLOAT, ["b"])}
    nodes = [
        node("Tile", ["x", "times"], ["many"]),
        node("Tile", ["z", "more"], ["y0"]),
        node("Add", ["many", "y0"], ["y"]),
    ]
    proto = graph_of(nodes, inputs, ["y"], {"times": np.array([2]), "more": np.array([3])})
    with pytest.raises(UnsupportedOperatorError, match="Add") as caught:
        lower(loaded(proto))
    assert "--dim a=N" in caught.value.hint


@pytest.mark.parametrize(("more", "low"), [([], 0), ([node("Neg", ["past"], ["z"])], 1)])
def test_a_past_may_be_empty_where_it_only_has_something_behind_it(more: list[NodeProto], low: int) -> None:
    inputs: dict[str, tuple[int, list[int | str]]] = {"past": (FLOAT, [2, "p"]), "new": (FLOAT, [2, "n"])}
    nodes = [node("Concat", ["past", "new"], ["y"], axis=-1), *more]
    lowered = lower(loaded(graph_of(nodes, inputs, ["y", *(["z"] if more else [])])))
    assert lowered.dims == {"p": DimRange(low, 65536), "n": ANY_SIZE}
    feed = {"past": ramp(2, low), "new": ramp(2, 3)}
    np.testing.assert_array_equal(run(lowered, feed)[0], np.concatenate([feed["past"], feed["new"]], -1))


def test_a_range_from_0_is_taken_where_nothing_is_empty_then() -> None:
    proto = graph_of([node("Neg", ["x"], ["y"])], {"x": (FLOAT, ["n"])}, ["y"])
    with pytest.raises(UsageError, match="--dim n=0:9: the model takes sizes of 1:65536 alone"):
        lower(loaded(proto), {"n": DimRange(0, 9)})


@pytest.mark.parametrize(
    ("combine", "shape"),
    [(node("Add", ["rows", "x"], ["y"]), ["n", 3]), (node("MatMul", ["x", "rows"], ["y"]), [2, "n"])],
)
def test_a_table_cut_from_its_end_takes_sizes_up_to_its_own(combine: NodeProto, shape: Sequence[int | str]) -> None:
    """As ``table[max(0, 8 - n):]``, which is shorter than ``n`` once there are no 8 rows left to start from."""
    nodes = [
        node("Shape", ["x"], ["size"], start=shape.index("n"), end=shape.index("n") + 1),
        node("Sub", ["eight", "size"], ["left"]),
        node("Max", ["left", "zero"], ["start"]),
        node("Slice", ["table", "start", "eight", "zero"], ["rows"]),
        combine,
    ]
    constants = {"eight": np.array([8]), "zero": np.array([0]), "table": ramp(8, 3)}
    feeds = [{"x": ramp(*(n if extent == "n" else int(extent) for extent in shape))} for n in (1, 5, 8)]
    assert check(nodes, {"x": (FLOAT, shape)}, feeds, constants).dims == {"n": DimRange(1, 8)}
    with pytest.raises(UsageError, match="--dim n=1:9: the model takes sizes of 1:8 alone"):
        lower(loaded(graph_of(nodes, {"x": (FLOAT, shape)}, ["y"], constants)), {"n": DimRange(1, 9)})
