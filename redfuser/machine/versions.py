"""Versions of the tools that shape what redfuser writes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

#: distributions whose version can change an artifact
TOOLS = ("redfuser", "apache-tvm", "apache-tvm-ffi", "numpy", "onnx", "sympy")

#: the same for artifacts that hold GPU code
GPU_TOOLS = ("nvidia-cuda-nvcc", "nvidia-nvvm", "tilelang")


def installed(distribution: str) -> str | None:
    """Version of an installed distribution, without importing it."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def tool_versions(kind: str = "cpu") -> dict[str, str]:
    """Version of each tool that shapes artifacts for a kind of target; ``absent`` for one that isn't installed."""
    return {name: installed(name) or "absent" for name in (*TOOLS, *(GPU_TOOLS if kind == "gpu" else ()))}
