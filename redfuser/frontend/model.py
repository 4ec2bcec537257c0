"""A loaded ONNX model and the limits it was loaded under. No onnx at import."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redfuser.signature import DimRange

if TYPE_CHECKING:
    import numpy
    from onnx import FunctionProto, ModelProto

    Array = numpy.ndarray[Any, Any]

MIB = 1 << 20


@dataclass(frozen=True)
class LoadLimits:
    """What a model file may cost us before anything of it is believed.

    Args:
        model_bytes: size of the ``.onnx`` file; protobuf itself stops at 2 GiB.
        external_bytes: all external tensor data together.
        nodes: nodes of the graph and its subgraphs, with the body of a function counted wherever it is called.
        depth: nesting of subgraphs (If, Loop, Scan).
        seconds: of a processor, reading and normalising, in a process of its own; waiting for a busy machine isn't
            counted.
        patience: seconds by the clock after which that process is given up, whatever it waits for.
        memory_bytes: address space of that process; 0 means three quarters of the machine's memory.
    """

    model_bytes: int = 2048 * MIB
    external_bytes: int = 16384 * MIB
    nodes: int = 100_000
    depth: int = 16
    seconds: float = 600.0
    patience: float = 6 * 3600.0
    memory_bytes: int = 0

    def memory(self) -> int:
        """The limit on memory in bytes."""
        return self.memory_bytes or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 3 // 4


DEFAULT_LIMITS = LoadLimits()


@dataclass(frozen=True)
class OnnxModel:
    """A checked model, all tensor data in memory. The proto is not changed after loading.

    Args:
        path: where it was read from.
        proto: the model; no tensor refers to external data any more.
        digest: SHA-256 (hexadecimal) of the file and of every piece of external data.
        size: bytes read, external data included.
    """

    path: Path
    proto: ModelProto
    digest: str
    size: int

    @property
    def opset(self) -> int:
        """Version of the default operator set (0 if none is imported)."""
        return opset_of(self.proto)

    def __str__(self) -> str:
        return _line(self.path, self.opset, len(self.proto.graph.node), self.size, self.digest)


@dataclass(frozen=True)
class PreparedModel:
    """A model ready to be imported: shapes decided, graph normalised.

    Args:
        path: where it was read from.
        proto: the normalised model (:func:`redfuser.frontend.normalising.normalise.normalise`).
        digest: as of :class:`OnnxModel`.
        size: as of :class:`OnnxModel`.
        opset: version of the default operator set in the file.
        nodes: number of nodes of the graph in the file.
        dims: range of each dimension that stays symbolic, by name.
        weights: the bytes of initializers whose data ``proto`` lacks, by name.
    """

    path: Path
    proto: ModelProto
    digest: str
    size: int
    opset: int
    nodes: int
    dims: Mapping[str, DimRange] = field(default_factory=dict)
    weights: Mapping[str, Array] = field(default_factory=dict, compare=False)

    def whole(self) -> ModelProto:
        """The normalised model with all data in it."""
        from onnx import ModelProto

        proto = ModelProto()
        proto.CopyFrom(self.proto)
        for tensor in proto.graph.initializer:
            if tensor.name in self.weights:
                tensor.raw_data = self.weights[tensor.name].tobytes()
        return proto

    def __str__(self) -> str:
        return _line(self.path, self.opset, self.nodes, self.size, self.digest)


def _line(path: Path, opset: int, nodes: int, size: int, digest: str) -> str:
    return f"{path.name}: opset {opset}, {nodes} nodes, {size / MIB:.1f} MiB, sha256 {digest}"


def opset_of(proto: ModelProto | FunctionProto) -> int:
    """Version of the default operator set that a model, or a function of it, imports; 0 if none.

    Of several the last holds, as for ONNX's checker and ONNX Runtime.
    """
    return next((o.version for o in reversed(proto.opset_import) if o.domain in ("", "ai.onnx")), 0)
