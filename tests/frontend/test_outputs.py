"""What a model says of its outputs: what contradicts its graph, and what doesn't."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

from redfuser.errors import ModelError
from redfuser.frontend import prepare
from redfuser.signature import DimRange
from tests.frontend.running import graph_of, loaded

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def declared(kind: int, shape: Sequence[int | str | None] | None, *input_shape: int | str) -> ModelProto:
    """The sum of ``x`` over its last axis, with a declaration."""
    node = helper.make_node("ReduceSum", ["x", "axis"], ["y"], keepdims=0)
    proto = graph_of([node], {"x": (FLOAT, input_shape or (2, 3))}, ["y"], {"axis": np.array([-1])})
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", kind, shape))
    return proto


@pytest.mark.parametrize(
    ("kind", "shape", "words"),
    [
        (INT64, [2], r"int64\[2\], but the graph computes float\[2\]"),
        (INT64, None, r"int64, but the graph computes float"),
        (FLOAT, [2, 1], r"float\[2, 1\], but"),
        (FLOAT, [], r"float\[\], but"),
        (FLOAT, [3], r"float\[3\], but the graph computes float\[2\]"),
    ],
)
def test_contradictions_are_refused(kind: int, shape: Sequence[int] | None, words: str) -> None:
    with pytest.raises(ModelError, match=rf"output 'y' is declared as {words}"):
        prepare(loaded(declared(kind, shape)))


@pytest.mark.parametrize("shape", [[2], ["rows"], [None], None])
def test_what_is_left_open_contradicts_nothing(shape: Sequence[int | str | None] | None) -> None:
    output = prepare(loaded(declared(FLOAT, shape))).proto.graph.output[0]
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [2]


def test_a_type_that_is_not_said_contradicts_nothing() -> None:
    assert prepare(loaded(declared(TensorProto.UNDEFINED, [2])))


def test_names_hold_for_sizes_given_and_for_open_ones() -> None:
    for shape in (["batch"], ["rows"]):
        for size in (4, DimRange(1, 8)):
            assert prepare(loaded(declared(FLOAT, shape, "batch", 3)), {"batch": size})


def test_sizes_of_an_export_hold_for_none_once_its_inputs_are_opened() -> None:
    assert prepare(loaded(declared(FLOAT, [5], "batch", 3)), {"batch": 4})
    with pytest.raises(ModelError, match=r"float\[5, 1\], but the graph computes float\[4\]"):
        prepare(loaded(declared(FLOAT, [5, 1], "batch", 3)), {"batch": 4})
