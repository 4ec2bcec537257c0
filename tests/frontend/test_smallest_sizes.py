"""Open sizes that a model doesn't take: those below a window, a cut or a reflection are none of its range."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto

from redfuser.errors import UnsupportedOperatorError, UsageError
from redfuser.frontend import lower
from redfuser.oracle.run import run_onnxruntime
from redfuser.signature import ANY_SIZE, DimRange
from tests.frontend.normalising.graphs import node
from tests.frontend.running import graph_of, loaded, run

RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32)
INTEGERS: dict[str, np.ndarray] = {"two": np.array([2]), "less": np.array([-2]), "axis": np.array([2]), "w": W}
LENGTH = node("Shape", ["x"], "length", start=2, end=3)
TOO_LITTLE = node("Sub", ["length", "two"], "rest")


def model(*nodes: NodeProto, height: int | str = "h", **constants: np.ndarray) -> ModelProto:
    return graph_of(nodes, {"x": (TensorProto.FLOAT, (1, 3, height, 8))}, ["y"], {**INTEGERS, **constants})


def image(height: int) -> Mapping[str, np.ndarray]:
    return {"x": np.random.default_rng(height).normal(size=(1, 3, height, 8)).astype(np.float32)}


@pytest.mark.parametrize(
    ("proto", "least"),
    [
        (model(node("Conv", ["x", "w"], "y")), 3),
        (model(node("Conv", ["x", "w"], "y", pads=[1, 1, 0, 1], strides=[2, 2])), 2),
        (model(node("Conv", ["x", "w"], "y", dilations=[3, 1])), 7),
        (model(node("Conv", ["x", "w"], "a"), node("Conv", ["a", "v"], "y"), v=W.transpose(1, 0, 2, 3).copy()), 5),
        (model(node("ConvTranspose", ["x", "w"], "y", pads=[2, 2, 2, 2]), w=W[:3]), 3),
        (model(node("MaxPool", ["x"], "y", kernel_shape=[4, 4])), 3),
        (model(node("AveragePool", ["x"], "y", kernel_shape=[4, 4])), 3),
        (model(node("Pad", ["x", "pads"], "y"), pads=np.array([0, 0, -2, 0, 0, 0, -1, 0])), 3),
        (model(node("Pad", ["x", "pads"], "y", mode="reflect"), pads=np.array([0, 0, 1, 0, 0, 0, 3, 0])), 4),
        (model(LENGTH, TOO_LITTLE, node("ConstantOfShape", ["rest"], "y")), 2),
    ],
)
def test_smaller_sizes_are_out_of_range(proto: ModelProto, least: int) -> None:
    lowered = lower(loaded(proto))
    assert lowered.dims == {"h": DimRange(least, ANY_SIZE.high)}
    (got,) = run(lowered, image(least))
    np.testing.assert_allclose(got, run_onnxruntime(proto, image(least), 1)["y"], rtol=1e-5, atol=1e-5)
    with pytest.raises(Exception, match=r"(?i)invalid|negative|storage|exceeds|<= 0"):
        run_onnxruntime(proto, image(least - 1), 1)


@pytest.mark.parametrize(("bounds", "wanted"), [(DimRange(1, 9), "h=3:9"), (DimRange(1, 2), "h=3:3")])
def test_a_range_that_was_asked_for_is_refused(bounds: DimRange, wanted: str) -> None:
    with pytest.raises(UsageError, match="takes sizes of 3:") as raised:
        lower(loaded(model(node("Conv", ["x", "w"], "y"))), {"h": bounds})
    assert wanted in raised.value.hint


@pytest.mark.parametrize("bounds", [(2, -2), (1, -1), (0, -3)])
@pytest.mark.parametrize("height", [1, 2, 3, 4, 6])
def test_a_slice_beyond_its_end_is_empty(bounds: tuple[int, int], height: int) -> None:
    start, end = (np.array([bound]) for bound in bounds)
    proto = model(node("Slice", ["x", "start", "end", "axis"], "y"), start=start, end=end)
    lowered = lower(loaded(proto))
    assert lowered.dims == {"h": ANY_SIZE}
    (got,) = run(lowered, image(height))
    np.testing.assert_array_equal(got, run_onnxruntime(proto, image(height), 1)["y"])


def test_a_reflection_of_more_than_there_is() -> None:
    proto = model(node("Pad", ["x", "pads"], "y", mode="reflect"), height=2, pads=np.array([0, 0, 2, 0, 0, 0, 0, 0]))
    with pytest.raises(UnsupportedOperatorError, match="elements along an axis"):
        lower(loaded(proto))
