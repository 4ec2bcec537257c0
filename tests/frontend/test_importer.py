"""What the importer refuses: always by operator and node, in one line, and nothing else is printed."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from tests.frontend.running import graph_of, loaded, single

X = np.ones((2, 3), np.float32)


def refused(proto: ModelProto, capfd: pytest.CaptureFixture[str] | None = None) -> str:
    with pytest.raises(UnsupportedOperatorError) as caught:
        lower(loaded(proto))
    if capfd is not None:
        printed = capfd.readouterr()
        assert printed.out == printed.err == ""
    assert "\n" not in caught.value.message and "'node'" in caught.value.message
    return caught.value.message


def test_unknown_operators(capfd: pytest.CaptureFixture[str]) -> None:
    assert "operator Det (node 'node') is not supported" in refused(
        single("Det", {"x": np.eye(3, dtype=np.float32)}), capfd
    )


def test_unknown_domains(capfd: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], name="node", domain="own")
    message = refused(graph_of([node], {"x": X}, ["y"], domains={"own": 1}), capfd)
    assert "operator Softmax of domain 'own'" in message


def test_uses_a_converter_does_not_cover(capfd: pytest.CaptureFixture[str]) -> None:
    feeds = {"x": X, "k": np.array([2])}
    assert "k must be a constant" in refused(single("TopK", feeds, outputs=2), capfd)


def test_uses_that_tvm_gets_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    image = np.ones((1, 1, 4, 4), np.float32)
    scales = {"_roi": X, "scales": np.array([1, 1, 0.6, 0.6], np.float32)}
    assert "divide evenly" in refused(single("Resize", {"x": image}, scales, mode="linear"), capfd)
    even = {"_roi": X, "scales": np.array([1, 1, 2, 2], np.float32)}
    assert lower(loaded(single("Resize", {"x": image}, even, mode="linear"))).outputs[0].shape == (1, 1, 8, 8)


def test_tables_that_would_fill_the_memory(capfd: pytest.CaptureFixture[str]) -> None:
    bounds = {"a": np.int64(0), "b": np.int64(1 << 34), "c": np.int64(1)}
    node = helper.make_node("Range", list(bounds), ["r"], name="node")
    cast = helper.make_node("Cast", ["r"], ["y"], to=TensorProto.FLOAT)
    assert "a table this long" in refused(graph_of([node, cast], {}, ["y"], bounds), capfd)


def test_sparse_constants(capfd: pytest.CaptureFixture[str]) -> None:
    values, places = (numpy_helper.from_array(np.array(a), "") for a in (np.ones(2, np.float32), np.array([0, 2])))
    sparse = helper.make_sparse_tensor(values, places, [4])
    node = helper.make_node("Constant", [], ["c"], name="node", sparse_value=sparse)
    proto = graph_of([node, helper.make_node("Relu", ["c"], ["y"])], {}, ["y"])
    assert "operator Constant (node 'node')" in refused(proto, capfd)


def test_operators_that_tvm_imports_but_cannot_lower() -> None:
    x = np.ones((2, 5), np.float32)
    zero_sized = single("Split", {"x": x}, {"s": np.array([0, 5])}, outputs=2, axis=1)
    assert "no lowering" in refused(zero_sized)


def test_shapes_that_depend_on_data(capfd: pytest.CaptureFixture[str]) -> None:
    assert "shape depends on data" in refused(single("NonZero", {"x": X}), capfd)


@pytest.mark.parametrize("shape", [(), (1,)], ids=["scalars", "lists"])
def test_boxes_that_are_kept(shape: tuple[int, ...], capfd: pytest.CaptureFixture[str]) -> None:
    """Of single numbers TVM made code that failed later on, of lists it said something about Python."""
    boxes = {"boxes": np.ones((1, 10, 4), np.float32), "scores": np.ones((1, 2, 10), np.float32)}
    limits = {
        "most": np.full(shape, 3),
        "overlap": np.full(shape, 0.5, np.float32),
        "least": np.zeros(shape, np.float32),
    }
    assert "shape depends on data" in refused(single("NonMaxSuppression", boxes, limits), capfd)


def test_values_that_are_no_tensors(capfd: pytest.CaptureFixture[str]) -> None:
    split = helper.make_node("SplitToSequence", ["x"], ["s"], name="node")
    at = helper.make_node("SequenceAt", ["s", "i"], ["y"], name="at")
    assert "no tensor" in refused(graph_of([split, at], {"x": X}, ["y"], {"i": np.array(0)}), capfd)


def test_a_condition_known_only_at_run_time(capfd: pytest.CaptureFixture[str]) -> None:
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"])],
        "b",
        [],
        [helper.make_tensor_value_info("r", TensorProto.FLOAT, [2, 3])],
    )
    node = helper.make_node("If", ["c"], ["y"], name="node", then_branch=branch, else_branch=branch)
    assert "operator If" in refused(graph_of([node], {"x": X, "c": np.array(True)}, ["y"]), capfd)


def test_contributed_operators_are_kept_apart_from_the_standard_ones(capfd: pytest.CaptureFixture[str]) -> None:
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], name="node", domain="com.microsoft")
    proto = graph_of([node], {"x": X}, ["y"], {"k": np.array([1])}, domains={"com.microsoft": 1})
    assert "domain 'com.microsoft'" in refused(proto, capfd)
