"""Resize to the nearest element, by scales that do and don't divide an image evenly, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.frontend.converters.resize import ROUNDINGS
from redfuser.oracle.run import run_onnxruntime
from tests.frontend.normalising.graphs import node
from tests.frontend.running import graph_of, loaded, lower_and_run

MODES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
NAMES = ["x", "", "scales"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("scales", [(0.5, 1.0), (0.25, 0.7), (1.3, 2.6), (0.4, 3.0), (2.0, 0.6)])
def test_scales_that_leave_a_rest(scales: tuple[float, float], rounding: str, mode: str) -> None:
    x = np.arange(2 * 7 * 19, dtype=np.float32).reshape(1, 2, 7, 19)
    attributes = {"coordinate_transformation_mode": mode, "nearest_mode": rounding}
    proto = graph_of(
        [node("Resize", NAMES, "y", mode="nearest", **attributes)],
        {"x": x},
        ["y"],
        {"scales": np.array([1, 1, *scales], np.float32)},
        opset=19,
    )
    (got,) = lower_and_run(proto, {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])


def of_open_height(scale: float) -> ModelProto:
    return graph_of(
        [node("Resize", NAMES, "y", mode="nearest")],
        {"x": (TensorProto.FLOAT, (1, 2, "h", 4))},
        ["y"],
        {"scales": np.array([1, 1, scale, 2], np.float32)},
        opset=19,
    )


@pytest.mark.parametrize("height", [1, 3, 4])
def test_whole_scales_of_an_open_size(height: int) -> None:
    proto, x = of_open_height(2.0), np.arange(8 * height, dtype=np.float32).reshape(1, 2, height, 4)
    (got,) = lower_and_run(proto, {"x": x})
    np.testing.assert_array_equal(got, run_onnxruntime(proto, {"x": x}, 1)["y"])


def test_an_open_size_that_may_leave_a_rest() -> None:
    with pytest.raises(UnsupportedOperatorError, match="doesn't divide it evenly") as raised:
        lower(loaded(of_open_height(0.5)))
    assert "--dim h=N" in raised.value.hint
