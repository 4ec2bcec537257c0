"""Build small graphs, lower them, and run them as TVM compiles them without any schedule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper, shape_inference

from redfuser.frontend import LoweredModel, OnnxModel, lower


def loaded(proto: ModelProto) -> OnnxModel:
    """A model that never was a file."""
    return OnnxModel(Path("test.onnx"), proto, "", 0)


def graph_of(
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, np.ndarray | tuple[int, Sequence[int | str]]],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 18,
    domains: Mapping[str, int] | None = None,
) -> ModelProto:
    """A model of these nodes.

    Args:
        inputs: an example array, or (element type, shape), for each.
        outputs: names; their types are left to inference.
    """
    values = []
    for name, given in inputs.items():
        kind, shape = (
            (helper.np_dtype_to_tensor_dtype(given.dtype), given.shape) if isinstance(given, np.ndarray) else given
        )
        values.append(helper.make_tensor_value_info(name, kind, list(shape)))
    tensors = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph(list(nodes), "test", values, results, tensors)
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid(domain, version) for domain, version in (domains or {}).items()]
    return shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports, ir_version=10))


def single(
    operator: str,
    inputs: Mapping[str, np.ndarray],
    constants: Mapping[str, np.ndarray] | None = None,
    outputs: int = 1,
    opset: int = 18,
    **attributes: object,
) -> ModelProto:
    """A model of one ``node`` that reads the inputs, then the constants; a name starting with _ is a missing input."""
    names = [*inputs, *(constants or {})]
    results = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(
        operator, ["" if name.startswith("_") else name for name in names], results, name="node", **attributes
    )
    kept = {name: array for name, array in (constants or {}).items() if not name.startswith("_")}
    return graph_of([node], inputs, results, kept, opset)


def run(lowered: LoweredModel, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs, by plain TVM on the CPU."""
    return compiled(lowered)(feeds)


def compiled(lowered: LoweredModel) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
    """What :func:`run` calls, for several calls."""
    import tvm
    from tvm import relax

    lowered.verify()
    machine = relax.VirtualMachine(tvm.compile(lowered.module, "llvm"), tvm.cpu())

    def call(feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        results = machine["main"](*[tvm.runtime.tensor(feeds[spec.name].copy()) for spec in lowered.inputs])
        return [each.numpy() for each in results] if len(lowered.outputs) > 1 else [results.numpy()]

    return call


def lower_and_run(proto: ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """All of it."""
    return run(lower(loaded(proto)), feeds)
