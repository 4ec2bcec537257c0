"""RotaryEmbedding of com.microsoft, and ONNX's."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.normalising.contributed.checking import Inputs, agree, contributed, normal, refused
from tests.frontend.running import graph_of, lower_and_run

FLAT, HEADS = normal(2, 3, 32), normal(2, 4, 3, 8)
PLACES = np.array([[0, 1, 2], [4, 1, 6]], np.int64)
FIRST = np.array([2], np.int64)


def caches(columns: int) -> dict[str, np.ndarray]:
    angles = normal(9, columns)
    return {"c": np.cos(angles), "s": np.sin(angles)}


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ({"x": FLAT, "p": PLACES, **caches(4)}, {}),
        ({"x": FLAT, "p": FIRST, **caches(4)}, {"interleaved": 1}),
        ({"x": FLAT, "p": PLACES, **caches(2)}, {"num_heads": 4, "rotary_embedding_dim": 4}),
        ({"x": HEADS, "p": PLACES, **caches(4)}, {"interleaved": 1}),
        ({"x": HEADS, "p": FIRST, **caches(4)}, {}),
        ({"x": HEADS, "p": PLACES, **caches(2)}, {"num_heads": 4, "rotary_embedding_dim": 4, "interleaved": 1}),
    ],
)
def test_every_form(inputs: Inputs, attributes: dict[str, object]) -> None:
    agree(*contributed("RotaryEmbedding", inputs, ["y"], **attributes))


@pytest.mark.parametrize(
    ("attributes", "what"),
    [
        ({"scale": 2.0}, "a scale"),
        ({"is_packed_batching": 1}, "the attribute is_packed_batching"),
        ({"rotary_embedding_dim": 4, "num_heads": 4}, "rotary_embedding_dim 4 and caches of 4 columns"),
    ],
)
def test_other_uses_are_refused(attributes: dict[str, object], what: str) -> None:
    inputs = {"x": FLAT, "p": PLACES, **caches(4)}
    refused(*contributed("RotaryEmbedding", inputs, ["y"], **attributes), what)


def test_positions_of_one_row_for_all_are_refused() -> None:
    refused(*contributed("RotaryEmbedding", {"x": FLAT, "p": PLACES[0], **caches(4)}, ["y"]), "several positions")


@pytest.mark.parametrize("given", [FLAT, HEADS], ids=["flat", "heads"])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("columns", [2, 4])
@pytest.mark.parametrize("placed", [False, True])
def test_the_one_of_onnx(given: np.ndarray, interleaved: int, columns: int, placed: bool) -> None:
    tables = caches(columns) if placed else {name: normal(2, 3, columns) for name in "cs"}
    feeds = {"x": given, **tables, **({"p": PLACES} if placed else {})}
    attributes = {"num_heads": 4, "rotary_embedding_dim": 0 if columns == 4 else 4, "interleaved": interleaved}
    node = helper.make_node("RotaryEmbedding", list(feeds), ["y"], name="node", **attributes)
    proto = graph_of([node], feeds, ["y"], opset=23)
    exact = run_float64(proto, feeds)["y"]
    np.testing.assert_allclose(run_onnxruntime(proto, feeds, 1)["y"], exact, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lower_and_run(proto, feeds)[0], exact, rtol=1e-5, atol=1e-5)
