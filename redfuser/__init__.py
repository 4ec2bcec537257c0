"""Compile ONNX models with TVM, fusing cascaded reductions into single-pass kernels.

    artifact = redfuser.compile("bert.onnx", target="cpu", output="bert.redfuser")
    model = redfuser.load("bert.redfuser")
    outputs = model({"input_ids": array})

Names are resolved when first used: importing this package imports nothing heavy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redfuser.api import Artifact, analyze, compile
    from redfuser.artifact.load import LoadedModel, load
    from redfuser.errors import RedFuserError
    from redfuser.options import CompileOptions
    from redfuser.report.value import FusionReport

__all__ = [
    "Artifact",
    "CompileOptions",
    "FusionReport",
    "LoadedModel",
    "RedFuserError",
    "analyze",
    "compile",
    "load",
]

_HOMES = {
    "Artifact": "redfuser.api",
    "CompileOptions": "redfuser.options",
    "FusionReport": "redfuser.report.value",
    "LoadedModel": "redfuser.artifact.load",
    "RedFuserError": "redfuser.errors",
    "analyze": "redfuser.api",
    "compile": "redfuser.api",
    "load": "redfuser.artifact.load",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'redfuser' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
