"""Versions of the tools that shape what redfuser writes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

#: distributions whose version can change an artifact
TOOLS = ("redfuser", "apache-tvm", "apache-tvm-ffi", "numpy", "onnx", "sympy")


def installed(distribution: str) -> str | None:
    """Version of an installed distribution, without importing it."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def tool_versions() -> dict[str, str]:
    """Version of each of :data:`TOOLS`; ``absent`` for one that isn't installed."""
    return {name: installed(name) or "absent" for name in TOOLS}
