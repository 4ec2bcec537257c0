"""``onnx.backend.base.Backend`` over compiled artifacts: ONNX's own test cases through the whole compiler."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, helper
from onnx.backend.base import Backend, BackendRep

import redfuser

#: Inputs that decide the shape of an output, or along which axis it is computed. ONNX's cases feed them on the call;
#: here they are fixed when compiling, as ``--value`` does.
_DECIDING = {"CumSum": 1, "TopK": 1}


class CompiledRep(BackendRep):
    """A model that is compiled at its first run, when the values that decide its shapes are known."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model

    def run(self, inputs: Sequence[np.ndarray], **kwargs: Any) -> tuple[np.ndarray, ...]:
        """The outputs, in order.

        Raises:
            RedFuserError: the model isn't supported.
        """
        declared = [value.name for value in self.model.graph.input]
        feeds = {name: np.asarray(array) for name, array in zip(declared, inputs, strict=True)}
        fixed = {name: feeds.pop(name).reshape(-1).tolist() for name in deciding_inputs(self.model)}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(self.model.SerializeToString())
            artifact = redfuser.compile(path, output=Path(folder) / "out", values=fixed, threads=1)
            module = artifact.load(threads=1)
            results = module({spec.name: feeds[spec.name].astype(spec.dtype) for spec in module.inputs})
        kinds = [helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type) for v in self.model.graph.output]
        return tuple(array.astype(kind) for array, kind in zip(results.values(), kinds, strict=True))


class CompiledBackend(Backend):
    """Compiles for the CPU of this machine."""

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> CompiledRep:
        return CompiledRep(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


def deciding_inputs(model: ModelProto) -> set[str]:
    """Names of the graph's inputs that must be fixed before compiling."""
    places = {node.op_type: _DECIDING.get(node.op_type) for node in model.graph.node}
    places |= {operator: 1 for operator in places if operator.startswith("Reduce")}
    read = {name for node in model.graph.node for place, name in enumerate(node.input) if place == places[node.op_type]}
    return read & {value.name for value in model.graph.input}
