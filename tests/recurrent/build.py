"""Models of one LSTM, GRU or RNN, and inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TypeProto, helper, numpy_helper, shape_inference

#: Sums of a unit in each step.
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

#: Which input an optional one is.
PLACES = {"bias": 3, "lengths": 4, "hidden": 5, "memory": 6, "peepholes": 7}

Arrays = dict[str, np.ndarray]


def layer(
    kind: str,
    steps: int,
    batch: int,
    width: int,
    hidden: int,
    given: tuple[str, ...] = ("bias",),
    open_sizes: bool = False,
    constant: bool = True,
    opset: int = 22,
    dtype: type = np.float32,
    **attributes: Any,
) -> tuple[ModelProto, Arrays]:
    """A layer with all of its outputs, and inputs for it.

    Args:
        given: the optional inputs that are given, by the names in :data:`PLACES`.
        open_sizes: leave the number of steps and the batch open.
        constant: weights are constants.
    """
    rng = np.random.default_rng(steps + batch)
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    first = bool(attributes.get("layout"))
    gates = GATES[kind] * hidden

    def normal(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / 2).astype(dtype)

    state = (batch, directions, hidden) if first else (directions, batch, hidden)
    data: Arrays = {"x": normal(*((batch, steps, width) if first else (steps, batch, width)))}
    weights: Arrays = {"w": normal(directions, gates, width), "r": normal(directions, gates, hidden)}
    data |= {name: normal(*state) for name in ("hidden", "memory") if name in given}
    data |= {"lengths": rng.integers(0, steps + 1, batch).astype(np.int32)} if "lengths" in given else {}
    weights |= {"bias": normal(directions, 2 * gates)} if "bias" in given else {}
    weights |= {"peepholes": normal(directions, 3 * hidden)} if "peepholes" in given else {}
    names = ["x", "w", "r", *[""] * (5 if kind == "LSTM" else 3)]
    for name in given:
        names[PLACES[name]] = name
    outputs = ["y", "last", *(["last_memory"] if kind == "LSTM" else [])]
    node = helper.make_node(kind, names, outputs, name="node", hidden_size=hidden, **attributes)
    feeds = data if constant else data | weights
    symbols = (
        {("x", 0): "steps", ("x", 1): "batch", ("hidden", 1): "batch", ("memory", 1): "batch"} if open_sizes else {}
    )
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [symbols.get((name, place), extent) for place, extent in enumerate(array.shape)],
        )
        for name, array in feeds.items()
    ]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()] if constant else []
    results = [helper.make_value_info(name, TypeProto()) for name in outputs]
    graph = helper.make_graph([node], "layer", inputs, results, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return shape_inference.infer_shapes(model), feeds
