"""Col2Im against ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from tests.frontend.converters.checking import check, normal
from tests.frontend.running import graph_of, loaded, run, single


def joined(x: np.ndarray, image: list[int], patch: list[int], **attributes: Any) -> Any:
    return single("Col2Im", {"x": x}, {"image": np.array(image), "patch": np.array(patch)}, opset=18, **attributes)


@pytest.mark.parametrize(
    ("shape", "image", "patch", "attributes"),
    [
        ((2, 12, 9), [6, 6], [2, 2], {"strides": [2, 2]}),
        ((1, 5, 5), [5, 5], [1, 5], {}),
        ((2, 12, 20), [5, 6], [2, 2], {}),
        ((1, 9, 4), [6, 6], [3, 3], {"dilations": [2, 2]}),
        ((1, 15, 15), [5, 7], [1, 5], {"pads": [0, 1, 0, 1], "strides": [2, 1], "dilations": [1, 1]}),
        ((1, 12, 4), [7, 6], [3, 2], {"strides": [3, 3], "pads": [0, 1, 0, 0]}),
        ((2, 8, 18), [4, 3, 2], [2, 2, 2], {"pads": [0, 0, 1, 0, 0, 1], "strides": [1, 1, 1]}),
        ((1, 3, 3), [9], [3], {"strides": [3]}),
    ],
)
def test_patches_apart_and_over_each_other(shape: Any, image: list[int], patch: list[int], attributes: Any) -> None:
    x = normal(*shape)
    check(joined(x, image, patch, **attributes), {"x": x})


def test_sums_in_half_precision_are_rounded_once() -> None:
    x = normal(2, 12, 20).astype(np.float16)
    (got,) = check(joined(x, [5, 6], [2, 2]), {"x": x})
    (wide,) = check(joined(x.astype(np.float32), [5, 6], [2, 2]), {"x": x.astype(np.float32)})
    np.testing.assert_array_equal(got, wide.astype(np.float16))


def test_patches_that_tile_an_image_are_only_moved() -> None:
    x = normal(2, 12, 9)
    lowered = lower(loaded(joined(x, [6, 6], [2, 2], strides=[2, 2])))
    assert not any("col2im" in variable.name_hint for variable in lowered.module.get_global_vars())


def test_any_number_of_images() -> None:
    x = normal(3, 4, 9)
    proto = joined(x, [4, 4], [2, 2])
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    (got,) = run(lower(loaded(proto)), {"x": x})
    (expected,) = check(joined(x, [4, 4], [2, 2]), {"x": x})
    np.testing.assert_array_equal(got, expected)


def test_what_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="9 patches of 5 elements don't make an image"):
        lower(loaded(joined(normal(1, 5, 9), [4, 4], [2, 2])))
    feeds = {"x": normal(1, 4, 9), "image": np.array([4, 4]), "patch": np.array([2, 2])}
    with pytest.raises(UnsupportedOperatorError, match="image must be a constant"):
        lower(loaded(graph_of([single("Col2Im", feeds, opset=18).graph.node[0]], feeds, ["y0"])))
