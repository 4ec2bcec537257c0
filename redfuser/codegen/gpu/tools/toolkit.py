"""The CUDA compiler: where it is, and CUDA text to machine code. No TVM, no GPU, no driver."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from redfuser.errors import MissingToolError

#: The one command that mends a missing compiler.
MEND = "pip install 'redfuser[gpu]'"

SOURCE, ASSEMBLY, OBJECT = "kernels.cu", "kernels.ptx", "kernels.cubin"

#: Names of internal linkage carry a hash of the source's path.
_PATH_HASH = re.compile(r"((?:INTERNAL_|GLOBAL__N__)_?)[0-9a-f]{8}_")


class CudaError(Exception):
    """nvcc refused a source; the message is its first complaint."""


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture, the PTX it was assembled from, and what the assembler said of its use."""

    code: bytes
    ptx: str
    log: str


def find_nvcc() -> Path:
    """The compiler of the ``gpu`` extra's wheels, else the one on the search path.

    Raises:
        MissingToolError: there is none, or no host compiler, which it needs as its preprocessor.
    """
    found = _in_wheels() or _on_path("nvcc")
    if found is None:
        raise MissingToolError("no nvcc was found to compile GPU kernels with", MEND)
    if _on_path("gcc") is None:
        raise MissingToolError("nvcc needs gcc, which was not found", "install gcc (for example apt-get install g++)")
    return found


def compile_cuda(source: str, arch: str, options: Sequence[str] = ()) -> Cubin:
    """Compile CUDA text.

    By way of PTX, in which the hashes of paths are taken out: equal sources give equal machine code in any folder.

    Args:
        source: CUDA C++.
        arch: such as ``sm_90a``.
        options: further options of nvcc.

    Raises:
        MissingToolError: see :func:`find_nvcc`.
        CudaError: the source doesn't compile.
    """
    ptx = compile_ptx(source, arch, options)
    ptxas = find_nvcc().with_name("ptxas")
    with tempfile.TemporaryDirectory(prefix="redfuser-cuda-") as name:
        folder = Path(name)
        (folder / ASSEMBLY).write_text(ptx, encoding="utf-8")
        log = _run([str(ptxas), "-v", f"-arch={arch}", "-o", OBJECT, ASSEMBLY], folder)
        return Cubin((folder / OBJECT).read_bytes(), ptx, log)


def compile_ptx(source: str, arch: str, options: Sequence[str] = ()) -> str:
    """Compile CUDA text as far as PTX; see :func:`compile_cuda`."""
    nvcc = find_nvcc()
    with tempfile.TemporaryDirectory(prefix="redfuser-cuda-") as name:
        folder = Path(name)
        (folder / SOURCE).write_text(source, encoding="utf-8")
        _run([str(nvcc), "-ptx", "-w", f"-arch={arch}", *options, "-o", ASSEMBLY, SOURCE], folder)
        return _PATH_HASH.sub(r"\g<1>00000000_", (folder / ASSEMBLY).read_text(encoding="utf-8"))


def _run(command: list[str], folder: Path) -> str:
    """What a compiler says."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    log = done.stdout + done.stderr
    if done.returncode:
        raise CudaError(_complaint(log) or f"{Path(command[0]).name} ended with exit code {done.returncode}")
    return log


def _in_wheels() -> Path | None:
    """``nvidia`` is a namespace: its parts may lie in several folders."""
    spec = find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    candidates = (Path(folder) / "cu13" / "bin" / "nvcc" for folder in folders)
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def _on_path(tool: str) -> Path | None:
    found = shutil.which(tool)
    return Path(found) if found else None


def _complaint(log: str) -> str:
    """The first line that says error."""
    return next((line.strip() for line in log.splitlines() if "error" in line or "fatal" in line), "")
