"""One operator of com.microsoft: its definition in float64, ONNX Runtime's own kernel, and what is compiled of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import redfuser
from redfuser.errors import UnsupportedOperatorError
from redfuser.frontend import lower
from redfuser.oracle.run import run_float64, run_onnxruntime
from tests.frontend.running import graph_of, loaded, run

RNG = np.random.default_rng(0)

Inputs = Mapping[str, np.ndarray | None]


def normal(*shape: int) -> np.ndarray:
    """float32 from the normal distribution."""
    return RNG.standard_normal(shape).astype(np.float32)


def contributed(
    operator: str,
    inputs: Inputs,
    outputs: Sequence[str],
    constants: Sequence[str] = (),
    domain: str = "com.microsoft",
    **attributes: object,
) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of one node, and what to feed it.

    Args:
        inputs: one that is None is left out.
        constants: inputs that are the model's own.
    """
    given = {name: array for name, array in inputs.items() if array is not None}
    names = [name if name in given else "" for name in inputs]
    node = helper.make_node(operator, names, outputs, name="node", domain=domain, **attributes)
    feeds = {name: array for name, array in given.items() if name not in constants}
    own = {name: given[name] for name in constants if name in given}
    domains = {"com.microsoft": 1}
    return graph_of([node], feeds, [o for o in outputs if o], own, domains=domains, opset=17), feeds


def agree(
    proto: ModelProto,
    feeds: Mapping[str, np.ndarray],
    unjudged: Sequence[str] = (),
    tolerance: float = 1e-5,
    judge: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """The definition in float64, which ONNX Runtime's kernel and the compiled graph agree with.

    Args:
        unjudged: outputs that ONNX Runtime's kernel leaves out.
        judge: what should come out, where ONNX Runtime has no kernel.
    """
    exact = run_float64(proto, feeds)
    if judge is None:
        asked = ModelProto()
        asked.CopyFrom(proto)
        for node in asked.graph.node:
            node.output[:] = ["" if name in unjudged else name for name in node.output]
        for output in [output for output in asked.graph.output if output.name in unjudged]:
            asked.graph.output.remove(output)
        judge = run_onnxruntime(asked, feeds, 1)
    for name, value in judge.items():
        np.testing.assert_allclose(exact[name], value, rtol=tolerance, atol=tolerance, err_msg=f"judge of {name}")
    lowered = lower(loaded(proto))
    for spec, value in zip(lowered.outputs, run(lowered, feeds), strict=True):
        np.testing.assert_allclose(value, exact[spec.name], rtol=tolerance, atol=tolerance, err_msg=spec.name)
    return exact


def refused(proto: ModelProto, feeds: Mapping[str, np.ndarray], what: str) -> None:
    """Both the compile and the oracle say which node isn't supported, and with what."""
    node = proto.graph.node[0]
    reason = rf"{node.op_type} of domain 'com.microsoft' \(node 'node'\) is not supported with {what}"
    with pytest.raises(UnsupportedOperatorError, match=reason):
        lower(loaded(proto))
    with pytest.raises(UnsupportedOperatorError, match=reason):
        run_float64(proto, feeds)


def fused(proto: ModelProto, folder: Path) -> list[str]:
    """The kinds of the cascades found, all of which are fused."""
    entries = redfuser.analyze(saved(proto, folder)).cascades
    assert [entry.verdict for entry in entries] == ["fused"] * len(entries)
    return [entry.kind for entry in entries]


def saved(proto: ModelProto, folder: Path) -> Path:
    """The model as a file, with outputs that say their type."""
    complete = ModelProto()
    complete.CopyFrom(proto)
    for output in complete.graph.output:
        output.type.tensor_type.elem_type = output.type.tensor_type.elem_type or TensorProto.FLOAT
    path = folder / "model.onnx"
    path.write_bytes(complete.SerializeToString())
    return path
