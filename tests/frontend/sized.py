"""Lower a graph with symbolic dimensions once and run it at several sizes, for the tests of symbolic dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import NodeProto

from redfuser.frontend import LoweredModel, lower
from redfuser.oracle.run import run_onnxruntime
from redfuser.signature import DimRange
from tests.frontend.running import graph_of, loaded, run


def check(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int | str]]],
    feeds: Sequence[Mapping[str, np.ndarray]],
    constants: Mapping[str, np.ndarray] | None = None,
    output: str = "y",
    dims: Mapping[str, DimRange] | None = None,
) -> LoweredModel:
    """Lower once, run with every feed, compare with ONNX Runtime."""
    proto = graph_of(nodes, inputs, [output], constants)
    lowered = lower(loaded(proto), dims)
    assert lowered.dims
    for feed in feeds:
        (got,) = run(lowered, feed)
        np.testing.assert_allclose(got, run_onnxruntime(proto, feed, 1)[output], rtol=1e-6)
    return lowered


def ramp(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
