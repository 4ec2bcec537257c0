"""GridSample against ONNX Runtime and float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.oracle.run import run_onnxruntime
from tests.frontend.converters.checking import check, normal
from tests.frontend.running import graph_of, loaded, lower_and_run, run, single

MODES = ("nearest", "linear", "cubic")
PADDINGS = ("zeros", "border", "reflection")


def sampling(x: np.ndarray, grid: np.ndarray, **attributes: Any) -> tuple[Any, dict[str, np.ndarray]]:
    feeds = {"x": x, "grid": grid}
    return single("GridSample", feeds, opset=20, **attributes), feeds


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", MODES)
def test_places_inside_and_outside(mode: str, padding: str, aligned: int) -> None:
    """Some lie beyond the image several times its size."""
    proto, feeds = sampling(
        normal(2, 3, 5, 7), 2 * normal(2, 4, 6, 2), mode=mode, padding_mode=padding, align_corners=aligned
    )
    (got,) = check(proto, feeds)
    (expected,) = run_onnxruntime(proto, feeds, 1).values()
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("extents", [(1,), (4,), (3, 1, 5)])
def test_any_number_of_axes(extents: tuple[int, ...], padding: str) -> None:
    for aligned in (0, 1) if min(extents) > 1 else (0,):  # ONNX's reference divides by the distance of both ends
        grid = normal(1, *(2 for _ in extents), len(extents))
        check(*sampling(normal(1, 2, *extents), grid, padding_mode=padding, align_corners=aligned))


def test_ends_that_are_one_element() -> None:
    proto, feeds = sampling(normal(1, 2, 1, 4), normal(1, 2, 2, 2), padding_mode="reflection", align_corners=1)
    (got,) = lower_and_run(proto, feeds)
    plain, _ = sampling(feeds["x"], feeds["grid"] * np.float32([1, 0]), padding_mode="reflection", align_corners=1)
    np.testing.assert_array_equal(got, lower_and_run(plain, {**feeds, "grid": feeds["grid"] * np.float32([1, 0])})[0])


@pytest.mark.parametrize("padding", PADDINGS)
def test_no_place_reads_outside_the_image(padding: str) -> None:
    """NaN, infinity and numbers that no integer holds."""
    x, grid = normal(1, 1, 3, 4), np.array([np.nan, np.inf, -np.inf, 1e30], np.float32)
    proto, feeds = sampling(x, np.stack([grid, np.zeros(4, np.float32)], -1)[None, None], padding_mode=padding)
    (got,) = lower_and_run(proto, feeds)
    assert np.isnan(got[0, 0, 0, 0])
    nearest, feeds = sampling(x, feeds["grid"], padding_mode=padding, mode="nearest")
    (got,) = lower_and_run(nearest, feeds)
    assert np.isin(got, [0, *x.ravel()]).all()


def test_half_precision_and_the_older_names_of_modes() -> None:
    for mode in ("bilinear", "bicubic"):
        feeds = {"x": normal(1, 2, 6, 6).astype(np.float16), "grid": normal(1, 3, 3, 2).astype(np.float16)}
        (got,) = check(single("GridSample", feeds, opset=16, mode=mode), feeds)
        assert got.dtype == np.float16


def test_any_size_of_image_and_grid() -> None:
    x, grid = normal(2, 3, 5, 4), normal(2, 6, 3, 2)
    node = single("GridSample", {"x": x, "grid": grid}, opset=20).graph.node[0]
    shapes = {"x": (1, ["n", 3, "h", 4]), "grid": (1, ["n", "out", 3, 2])}
    (got,) = run(lower(loaded(graph_of([node], shapes, ["y0"]))), {"x": x, "grid": grid})
    (expected,) = lower_and_run(*sampling(x, grid))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("extents", "dtype", "attributes", "words"),
    [
        ((4,), np.float32, {"mode": "cubic", "padding_mode": "border"}, "mode cubic at the border along 1 axes"),
        ((4, 4), np.int32, {}, "data of int32"),
    ],
)
def test_what_is_refused(extents: Any, dtype: Any, attributes: Any, words: str) -> None:
    x, grid = normal(1, 1, *extents).astype(dtype), normal(1, *extents, len(extents))
    with pytest.raises(UnsupportedOperatorError, match=f"operator GridSample .*{words}"):
        lower(loaded(sampling(x, grid, **attributes)[0]))
