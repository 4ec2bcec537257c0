"""Checks of this machine for ``redfuser doctor``: each says what was found and how to mend it."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from typing import Literal

from redfuser.errors import RedFuserError
from redfuser.machine.host import usable_cores
from redfuser.machine.threads import threads_asked_for
from redfuser.machine.versions import installed
from redfuser.targets import load_target


@dataclass(frozen=True)
class Check:
    """One finding. ``optional`` means absent but not needed for CPU compiles."""

    name: str
    state: Literal["ok", "optional", "broken"]
    detail: str
    mend: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.state}, {self.detail}"


def check_all() -> tuple[Check, ...]:
    """Every check, in the order a person would mend things."""
    checks: tuple[Callable[[], Check], ...] = (
        check_python,
        lambda: check_pin("apache-tvm"),
        lambda: check_pin("apache-tvm-ffi"),
        check_llvm,
        check_processor,
        check_threads,
        check_linker,
        check_onnx,
        check_onnxruntime,
        check_gpu_tools,
    )
    return tuple(check() for check in checks)


def check_python() -> Check:
    """Python 3.11 or newer."""
    state: Literal["ok", "broken"] = "ok" if sys.version_info >= (3, 11) else "broken"
    return Check("python", state, platform.python_version(), "install Python 3.11 or newer")


def pins(distribution: str = "redfuser") -> dict[str, str]:
    """Exact versions that a distribution asks for, by name in lower case."""
    try:
        wanted = requires(distribution) or []
    except PackageNotFoundError:
        wanted = []
    found = (re.match(r"([\w.-]+)\s*==\s*([\w.!+]+)\s*(?:$|;)", item) for item in wanted)
    return {match.group(1).lower(): match.group(2) for match in found if match}


def check_pin(name: str) -> Check:
    """A distribution is installed in exactly the version that redfuser was tested with."""
    version, wanted = installed(name), pins().get(name)
    mend = f"pip install {name}=={wanted}" if wanted else f"pip install {name}"
    if version is None:
        return Check(name, "broken", "not installed", mend)
    if wanted is not None and version != wanted:
        return Check(name, "broken", f"{version}, but {wanted} is needed", mend)
    return Check(name, "ok", version)


def check_llvm() -> Check:
    """TVM imports and has its LLVM back end."""
    mend = "pip install --force-reinstall apache-tvm in a fresh virtual environment"
    if importlib.util.find_spec("tvm") is None:
        return Check("llvm", "broken", "tvm is not installed", mend)
    try:
        import tvm
        from tvm.target.codegen import llvm_version_major
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return Check("llvm", "broken", f"tvm cannot be imported: {error}", mend)
    if not tvm.runtime.enabled("llvm"):
        return Check("llvm", "broken", "this tvm was built without LLVM", mend)
    return Check("llvm", "ok", f"version {llvm_version_major()}")


def check_processor() -> Check:
    """The host is a machine that code can be generated for."""
    try:
        return Check("processor", "ok", str(load_target("cpu")).removeprefix("cpu: "))
    except RedFuserError as error:
        return Check("processor", "broken", error.message, error.hint)


def check_threads() -> Check:
    """How many threads a loaded artifact will use."""
    asked = threads_asked_for()
    if asked is not None:
        return Check("threads", "ok", f"{asked[1]}, from {asked[0]}")
    return Check("threads", "ok", f"{usable_cores()}, all usable cores")


def check_linker() -> Check:
    """A C++ compiler that links the generated objects into a library."""
    mend = "install g++ or clang++ (for example apt-get install g++), or set CXX"
    if importlib.util.find_spec("tvm") is None:
        return Check("linker", "broken", "cannot be checked without tvm", mend)
    from tvm.support.cc import get_cc

    found = get_cc()
    return Check("linker", "ok", found) if found else Check("linker", "broken", "no C++ compiler found", mend)


def check_onnx() -> Check:
    """The onnx package, in a version that loads external data safely."""
    version = installed("onnx")
    if version is None or tuple(map(int, version.split(".")[:2])) < (1, 21):
        return Check("onnx", "broken", version or "not installed", "pip install 'onnx>=1.21'")
    return Check("onnx", "ok", version)


def check_onnxruntime() -> Check:
    """The oracle of ``verify --model``."""
    version = installed("onnxruntime")
    if version is None:
        return Check("onnxruntime", "optional", "not installed", "verify --model needs it: pip install onnxruntime")
    return Check("onnxruntime", "ok", version)


def check_gpu_tools() -> Check:
    """The extra that GPU code generation needs."""
    names = ("tilelang", "nvidia-cuda-nvcc")
    missing = [name for name in names if installed(name) is None]
    if missing:
        return Check(
            "gpu tools", "optional", f"no {', no '.join(missing)}", "GPU targets need: pip install 'redfuser[gpu]'"
        )
    return Check("gpu tools", "ok", ", ".join(f"{name} {installed(name)}" for name in names))
