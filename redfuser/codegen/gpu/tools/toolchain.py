"""Where TileLang is, and the versions that decide what it and nvcc generate."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from redfuser.codegen.gpu.tools.toolkit import MEND, find_nvcc
from redfuser.errors import MissingToolError
from redfuser.machine.versions import installed

#: Distributions that decide which machine code a script becomes.
_DISTRIBUTIONS = ("tilelang", "nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl")


@dataclass(frozen=True)
class Toolchain:
    """What kernels are generated with.

    Args:
        includes: arguments that let nvcc find what generated sources include.
        versions: by name; part of the key of a cached kernel.
    """

    includes: tuple[str, ...]
    versions: tuple[str, ...]


@cache
def find_toolchain() -> Toolchain:
    """The tools of this environment; nothing is imported.

    Raises:
        MissingToolError: one isn't installed; the hint is the one command that mends it.
    """
    for name in ("tilelang", "torch"):
        if installed(name) is None:
            raise MissingToolError(f"compiling for a GPU needs {name}, which is not installed", MEND)
    spec = importlib.util.find_spec("tilelang")
    if spec is None or spec.origin is None:
        raise MissingToolError("compiling for a GPU needs tilelang, whose files are missing", MEND)
    package = Path(spec.origin).parent
    folders = (package / "src", package / "3rdparty" / "cutlass" / "include")
    versions = [f"{name} {installed(name)}" for name in _DISTRIBUTIONS]
    return Toolchain(tuple(f"-I{folder}" for folder in folders), (*versions, f"nvcc {find_nvcc().stat().st_size}"))
