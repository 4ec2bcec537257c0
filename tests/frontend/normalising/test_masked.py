"""``x[mask] = value`` as exporters spell it: a choice; and what only looks like it stays refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto

from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.oracle.run import run_onnxruntime
from tests.frontend.normalising.graphs import node, normalise, operators
from tests.frontend.running import graph_of, loaded, run

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def masked(updates: Sequence[NodeProto], **attributes: Any) -> list[NodeProto]:
    """``u``, made by ``updates`` of the number of places ``n``, written where ``not m``."""
    return [
        node("Not", ["m"], "hidden"),
        node("NonZero", ["hidden"], "list"),
        node("Transpose", ["list"], "places", perm=[1, 0]),
        node("Shape", ["places"], "n", start=0, end=1),
        *updates,
        node("ScatterND", ["x", "places", "u"], "z", "write", **attributes),
        node("Neg", ["z"], "y"),
    ]


ONE = [node("Expand", ["value", "n"], "v"), node("Reshape", ["v", "flat"], "u")]
ROWS = [node("Concat", ["n", "four"], "shape", axis=0), node("Expand", ["value", "shape"], "u")]
CONSTANTS = {"flat": np.array([-1]), "four": np.array([4])}


@pytest.mark.parametrize(("updates", "kept", "added"), [(ONE, (2, 3, 4), []), (ROWS, (2, 3), ["Unsqueeze"])])
@pytest.mark.parametrize("value", [np.float32(-7), np.full(1, 5, np.float32)])
def test_one_value_where_a_mask_holds(
    updates: list[NodeProto], kept: tuple[int, ...], added: list[str], value: np.ndarray
) -> None:
    constants = {**CONSTANTS, "value": np.asarray(value)}
    proto = graph_of(masked(updates), {"x": X, "m": (TensorProto.BOOL, kept)}, ["y"], constants)
    assert operators(normalise(proto)) == ["Not", *added, "Where", "Neg"]
    lowered = lower(loaded(proto))
    for mask in (np.arange(np.prod(kept)).reshape(kept) % 3 > 0, np.ones(kept, bool), np.zeros(kept, bool)):
        feeds = {"x": X, "m": mask}
        np.testing.assert_array_equal(run(lowered, feeds)[0], run_onnxruntime(proto, feeds, 1)["y"])


def test_of_any_number_of_rows() -> None:
    shapes = {"x": (TensorProto.FLOAT, ["a", "b", 4]), "m": (TensorProto.BOOL, ["a", "b"])}
    proto = graph_of(masked(ROWS), shapes, ["y"], {**CONSTANTS, "value": np.array(0.5, np.float32)})
    lowered = lower(loaded(proto))
    for x in (X, X[:1, :2]):
        feeds = {"x": x, "m": x[..., 0] % 8 > 0}
        np.testing.assert_array_equal(run(lowered, feeds)[0], run_onnxruntime(proto, feeds, 1)["y"])


@pytest.mark.parametrize(
    ("updates", "mask", "attributes"),
    [
        ([node("Range", ["zero", "n0", "one"], "u")], (2, 3, 4), {}),  # values of their own
        (ONE, (2, 3, 3), {}),  # the mask of a part
        (ONE, (2, 3, 4), {"reduction": "add"}),
    ],
)
def test_anything_else_depends_on_data(
    updates: list[NodeProto], mask: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    constants = {**CONSTANTS, "value": np.float32(2), "zero": np.float32(0), "one": np.float32(1)}
    count = [node("Cast", ["n"], "nf", to=TensorProto.FLOAT), node("Squeeze", ["nf"], "n0")]
    nodes = masked([*count, *updates], **attributes)
    proto = graph_of(nodes, {"x": X, "m": (TensorProto.BOOL, mask)}, ["y"], constants)
    with pytest.raises(UnsupportedOperatorError, match=r"NonZero .* depends on data"):
        lower(loaded(proto))
