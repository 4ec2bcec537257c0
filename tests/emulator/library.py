"""Building kernels and the runtime as shared libraries, and loading them."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

from tests.emulator.source import host_source

HERE = Path(__file__).resolve().parent
COMPILER = "g++"
KEPT_SECONDS = 7 * 24 * 3600
COMMON = ("-std=c++20", "-march=native", "-fPIC", "-w", "-fno-strict-aliasing", "-fno-gnu-unique")
# The hooks before loads and stores of which accesses.h tells, vectors in one piece; lines name the place of an error.
KERNEL = (
    "-O1",
    "-fno-tree-sra",
    "-g1",
    "-fvisibility=hidden",
    "-fsanitize=thread",
    "--param=tsan-instrument-func-entry-exit=0",
    "-fno-threadsafe-statics",  # GCC guards static arrays of structs even where there is nothing to initialise
)


class EmulationError(RuntimeError):
    """What a device would have done wrong, or silently: a race, a missing wait, an access out of bounds."""


def available() -> bool:
    """Whether there is a C++ compiler."""
    return shutil.which(COMPILER) is not None


#: For tests that run what the emulator builds.
needs_compiler = pytest.mark.skipif(not available(), reason="the emulator needs g++")


@cache
def _folder() -> Path:
    """Where libraries are built, the user's alone; kept from one run to the next, but not for ever."""
    path = Path(tempfile.gettempdir()) / f"redfuser-emulator-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    if path.stat().st_uid != os.getuid():
        raise EmulationError(f"{path} belongs to somebody else")
    for library in path.glob("*.so"):
        if time.time() - library.stat().st_mtime > KEPT_SECONDS:
            library.unlink(missing_ok=True)
    return path


@cache
def _headers(patterns: tuple[str, ...]) -> str:
    """What a library includes of the emulator's C++, for its name."""
    paths = sorted({path for pattern in patterns for path in HERE.glob(pattern)})
    return "".join(path.read_text() for path in paths)


def _build(name: str, text: str, flags: tuple[str, ...], *headers: str) -> Path:
    """A shared library of the text, unless one with the same content is there already.

    Args:
        headers: patterns of what the text includes.
    """
    key = hashlib.sha256("\0".join([text, _headers(headers), *flags]).encode()).hexdigest()[:16]
    path = _folder() / f"{name}-{key}.so"
    if path.exists():
        path.touch()
        return path
    with tempfile.TemporaryDirectory(dir=_folder()) as scratch:
        source, compiled, library = (Path(scratch) / f"{name}{suffix}" for suffix in (".cpp", ".o", ".so"))
        source.write_text(text)
        # Linked without the flags: the runtime takes the place of the sanitizer's library.
        _run(COMPILER, *COMMON, *flags, f"-I{HERE}", "-c", "-o", str(compiled), str(source))
        _run(COMPILER, "-shared", "-o", str(library), str(compiled))
        library.replace(path)
    return path


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        raise EmulationError("the kernel doesn't compile for the host:\n" + "\n".join(errors[:8]))


def runtime_path() -> Path:
    """The runtime's library, built if need be."""
    return _build("runtime", '#include "runtime/runtime.cpp"\n', ("-O3",), "cuda/*", "runtime/*")


@cache
def runtime() -> ctypes.CDLL:
    """The runtime, whose symbols kernels resolve against."""
    library = ctypes.CDLL(str(runtime_path()), mode=ctypes.RTLD_GLOBAL)
    library.emulator_error.restype = ctypes.c_char_p
    library.emulator_error_offset.restype = ctypes.c_size_t
    return library


def line_of(library: ctypes.CDLL, offset: int) -> int | None:
    """The line of the CUDA source that the code at this offset of its library comes from."""
    command = ["addr2line", "-i", "-e", library._name, hex(offset)]
    try:
        places = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except OSError:
        return None
    found = re.findall(r"kernel\.cu:(\d+)", places)
    return int(found[-1]) if found else None


def kernel_path(source: str) -> Path:
    """The library of the kernels of a CUDA source, built if need be.

    Raises:
        EmulationError: the compiler refuses it: it uses something that isn't emulated.
    """
    try:
        text = host_source(source)
    except ValueError as error:
        raise EmulationError(str(error)) from error
    return _build("kernel", text, KERNEL, "cuda/*", "runtime/interface.h")


@cache
def kernel_library(source: str) -> ctypes.CDLL:
    """The kernels of a CUDA source, loaded.

    Raises:
        EmulationError: as :func:`kernel_path`.
    """
    runtime()
    return ctypes.CDLL(str(kernel_path(source)))
