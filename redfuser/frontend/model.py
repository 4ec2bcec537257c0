"""A loaded ONNX model and the limits it was loaded under. No onnx at import."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto

MIB = 1 << 20


@dataclass(frozen=True)
class LoadLimits:
    """What a model file may cost us before anything of it is believed.

    Args:
        model_bytes: size of the ``.onnx`` file; protobuf itself stops at 2 GiB.
        external_bytes: all external tensor data together.
        nodes: nodes of the graph, its subgraphs and functions together.
        depth: nesting of subgraphs (If, Loop, Scan).
    """

    model_bytes: int = 2048 * MIB
    external_bytes: int = 16384 * MIB
    nodes: int = 100_000
    depth: int = 16


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
        return (
            f"{self.path.name}: opset {self.opset}, {len(self.proto.graph.node)} nodes, "
            f"{self.size / MIB:.1f} MiB, sha256 {self.digest}"
        )


def opset_of(proto: ModelProto) -> int:
    """Version of the default operator set a model imports; 0 if none."""
    return next((o.version for o in proto.opset_import if o.domain in ("", "ai.onnx")), 0)
