"""Shapes of inputs: what is given, what stays symbolic, what contradicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from onnx import ModelProto, TensorProto, helper

from redfuser.errors import DynamicShapeError, ModelError, UsageError
from redfuser.frontend.shapes import resolve_shapes
from redfuser.signature import ANY_SIZE, DimRange
from tests.frontend.running import graph_of

FLOAT = TensorProto.FLOAT


def model(**inputs: Sequence[int | str | None]) -> ModelProto:
    node = helper.make_node("Sum", list(inputs), ["y"])
    return graph_of([node], {name: (FLOAT, shape) for name, shape in inputs.items()}, ["y"])


def make_static(proto: ModelProto, *given: Mapping[str, Any], **named: Mapping[str, Any]) -> ModelProto:
    result, ranges = resolve_shapes(proto, *given, **named)
    assert not ranges
    return result


def symbols(proto: ModelProto) -> Mapping[str, list[str]]:
    return {i.name: [d.dim_param for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}


def shapes(proto: ModelProto) -> Mapping[str, list[int]]:
    return {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}


def test_names_are_bound_everywhere() -> None:
    static = make_static(model(x=["batch", "seq"], mask=["batch", 1, "seq"]), {"batch": 2, "seq": 24})
    assert shapes(static) == {"x": [2, 24], "mask": [2, 1, 24]}


def test_a_whole_shape_binds_its_names_elsewhere_too() -> None:
    static = make_static(model(x=["batch", "seq"], mask=["batch", 1, "seq"]), shapes={"x": (3, 5)})
    assert shapes(static) == {"x": [3, 5], "mask": [3, 1, 5]}


def test_the_model_itself_is_not_changed() -> None:
    proto = model(x=["batch"])
    before = proto.SerializeToString()
    make_static(proto, {"batch": 2})
    assert proto.SerializeToString() == before


def test_zero_is_an_extent() -> None:
    assert shapes(make_static(model(x=["n", 0]), {"n": 0})) == {"x": [0, 0]}


def test_names_without_an_extent_stay_symbolic() -> None:
    proto, ranges = resolve_shapes(model(x=["batch", "seq"], mask=["batch", "seq"]), {"seq": DimRange(1, 512)})
    assert symbols(proto) == {"x": ["batch", "seq"], "mask": ["batch", "seq"]}
    assert ranges == {"batch": ANY_SIZE, "seq": DimRange(1, 512)}
    _, ranges = resolve_shapes(model(x=["batch", "seq"]), {"batch": 1})
    assert ranges == {"seq": ANY_SIZE}


@pytest.mark.parametrize("unnamed", [None, "?", ""])
def test_unnamed_dimensions_are_named_after_their_place_and_stay_distinct(unnamed: str | None) -> None:
    proto = model(x=["batch", 3, unnamed], mask=[unnamed, "seq"])
    resolved, ranges = resolve_shapes(proto, {"x.2": DimRange(2, 4)})
    assert symbols(resolved) == {"x": ["batch", "", "x.2"], "mask": ["mask.0", "seq"]}
    assert ranges == {"batch": ANY_SIZE, "x.2": DimRange(2, 4), "mask.0": ANY_SIZE, "seq": ANY_SIZE}
    static = make_static(proto, {"seq": 4, "mask.0": 1}, {"x": (1, 3, 9)})
    assert shapes(static) == {"x": [1, 3, 9], "mask": [1, 4]}


def test_no_shape_at_all_asks_for_it() -> None:
    proto = model(x=[2])
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(DynamicShapeError) as caught:
        make_static(proto)
    assert caught.value.hint == "give --shape x=AxBx..."
    assert shapes(make_static(proto, shapes={"x": (4, 5)})) == {"x": [4, 5]}


@pytest.mark.parametrize(
    ("dims", "given", "message"),
    [
        ({"bach": 2}, {}, "--dim: the model has no 'bach'"),
        ({}, {"y": (2,)}, "--shape: the model has no 'y'"),
        ({}, {"x": (2,)}, "rank 2, not 1"),
        ({"batch": -1}, {}, "cannot be negative"),
        ({}, {"x": (-1, 4)}, "cannot be negative"),
        ({"batch": 2}, {"x": (3, 4)}, "'batch' is 3 here and 2 elsewhere"),
        ({"batch": DimRange(4, 8)}, {"x": (3, 4)}, "'batch' is 3, not in 4:8"),
        ({}, {"x": (1, 5)}, "fixes dimension 1 to 4"),
    ],
)
def test_contradictions(dims: dict[str, int | DimRange], given: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_static(model(x=["batch", 4]), dims, given)


def test_unknown_names_come_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        make_static(model(x=["batch", "seq"]), {"bach": 2})
    assert caught.value.hint == "it has: batch, seq"


def test_only_numbers_are_inputs() -> None:
    proto = model(x=[2])
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    with pytest.raises(ModelError, match="strings"):
        make_static(proto)
    proto.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, [2])))
    with pytest.raises(ModelError, match="not a tensor"):
        make_static(proto)


def test_initializers_listed_as_inputs_need_no_shape() -> None:
    proto = model(x=[2], w=["n"])
    proto.graph.initializer.append(helper.make_tensor("w", FLOAT, [2], [1.0, 2.0]))
    assert shapes(make_static(proto))["x"] == [2]
