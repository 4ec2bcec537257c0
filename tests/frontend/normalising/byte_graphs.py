"""Networks whose convolutions are of bytes, for the tests of what they become."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto

from redfuser.frontend.normalising.normalise import normalise as use_up
from tests.frontend.normalising.graphs import node, operators
from tests.frontend.running import graph_of

RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (2, 5, 9, 8)).astype(np.uint8)
KERNELS = 20
CHANNELS = 16


def some(*shape: int, kind: type = np.int8) -> np.ndarray:
    limits = np.iinfo(kind)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(kind)


# No result in these steps lies halfway between two of 0.02: there float32 decides by chance.
WHOLE = {"sw": np.float32(0.0307), "zw": np.int8(5)}
BY_KERNEL = {"sw": RNG.random(KERNELS).astype(np.float32) * 0.1, "zw": some(KERNELS)}
SYMMETRIC = {"sw": BY_KERNEL["sw"], "zw": np.zeros(KERNELS, np.int8)}
W = some(KERNELS, 5, 3, 3)


def model(
    x: np.ndarray | tuple[int, tuple[int | str, ...]],
    w: np.ndarray,
    constants: Mapping[str, Any] | None = None,
    image: tuple[str, ...] = ("x", "sx", "zx"),
    axis: int = 0,
    **attributes: object,
) -> ModelProto:
    """Of one Conv with a bias; its result is quantised and dequantised again."""
    own: dict[str, Any] = {
        **{"w": w, "sx": np.float32(0.02), "zx": np.uint8(117), "sy": np.float32(0.5), "zy": np.int8(3)},
        **{"b": RNG.integers(-9000, 9000, len(w)).astype(np.int32), "sb": np.float32(0.02) * np.float32(0.0307)},
        **(constants or WHOLE),
    }
    nodes = [
        node("DequantizeLinear", list(image), "real_x"),
        node("DequantizeLinear", ["w", "sw", "zw"], "real_w", axis=axis),
        node("DequantizeLinear", ["b", "sb"], "real_b"),
        node("Conv", ["real_x", "real_w", "real_b"], "y", "conv", **attributes),
    ]
    return graph_of(nodes, {"x": x}, ["y"], {name: np.asarray(value) for name, value in own.items()})


def quantised_again(
    x: np.ndarray, w: np.ndarray, several: bool = True, bias: bool = True, **attributes: object
) -> ModelProto:
    """One QLinearConv."""
    kernels, kind = len(w), w.dtype.type
    own: dict[str, Any] = {
        **{"w": w, "sx": np.float32(0.02), "zx": x.dtype.type(7), "sy": np.float32(0.7), "zy": x.dtype.type(100)},
        "sw": np.linspace(0.02, 0.04, kernels, dtype=np.float32) if several else np.float32(0.03),
        "zw": np.full(kernels if several else (), 3 if kind is np.int8 else 128, kind),
        "b": RNG.integers(-9000, 9000, kernels).astype(np.int32),
    }
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", *(["b"] if bias else [])]
    used = {name: np.asarray(own[name]) for name in names[1:]}
    return graph_of([node("QLinearConv", names, "y", "conv", **attributes)], {"x": x}, ["y"], used)


def normalised(proto: ModelProto) -> list[str]:
    copy = ModelProto()
    copy.CopyFrom(proto)
    return operators(use_up(copy, convolves_bytes=True))
