"""The launcher as an object file: C tables, runtime and machine code, compiled by the host's C compiler."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from redfuser.codegen.gpu.launch.tables import PackedKernel, packed_tables, program_tables
from redfuser.codegen.gpu.value import GpuProgram
from redfuser.errors import MissingToolError

RUNTIME = ("runtime.c", "packed.c", "programs.c")

OPTIONS = ("-std=gnu11", "-O2", "-Wall", "-Werror", "-fPIC", "-fvisibility=hidden", "-pthread", "-c")


class HostCompilerError(Exception):
    """The C compiler refused the launcher: a bug of ours, or a compiler we don't know."""


def build_packed(kernels: Sequence[PackedKernel], arch: str, code: bytes) -> bytes:
    """An object with an entry for each kernel of one image.

    Args:
        arch: the image's, such as ``sm_90a``.
        code: the image.

    Raises:
        MissingToolError: there is no C compiler.
    """
    return _compile(packed_tables(kernels, arch), [code])


def build_programs(programs: Sequence[GpuProgram]) -> bytes:
    """An object with a packed function for each program: see :func:`..tables.program_symbol`.

    Raises:
        MissingToolError: there is no C compiler.
        ValueError: a program exceeds what the runtime has room for.
    """
    codes = [kernel.cubin for program in programs for kernel in program.kernels]
    return _compile(program_tables(programs, _type_code), codes)


def static_object(content: bytes, symbols: Sequence[str]) -> Any:
    """An object file as a module of TVM's, to be linked in.

    Args:
        symbols: packed functions that it has.
    """
    import tvm

    with tempfile.TemporaryDirectory(prefix="redfuser-object-") as folder:
        path = Path(folder) / "object.o"
        path.write_bytes(content)
        return tvm.runtime.load_static_library(str(path), list(symbols))


def _type_code(name: str) -> tuple[int, int]:
    import tvm_ffi

    dtype = tvm_ffi.dtype(name)
    return int(dtype.type_code), int(dtype.bits)


def _compile(tables: str, codes: Sequence[bytes]) -> bytes:
    """Everything under relative names in a folder of its own, so that no path enters the object."""
    import tvm_ffi

    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        raise MissingToolError("no C compiler was found to build the launcher with", "install gcc or clang")
    sources = resources.files("redfuser.codegen.gpu.launch")
    include = Path(tvm_ffi.__file__).parent / "include"
    with tempfile.TemporaryDirectory(prefix="redfuser-launch-") as name:
        folder = Path(name)
        for source in RUNTIME:
            (folder / source).write_bytes((sources / source).read_bytes())
        for number, code in enumerate(codes):
            (folder / f"code_{number}.cubin").write_bytes(code)
        (folder / "tables.c").write_text(tables + "\n".join(map(_embedded, range(len(codes)))) + "\n", encoding="utf-8")
        command = [compiler, *OPTIONS, "-I", str(include), "-o", "launcher.o", "tables.c"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HostCompilerError(done.stderr.strip())
        return (folder / "launcher.o").read_bytes()


def _embedded(number: int) -> str:
    """One image as read-only data."""
    lines = (".section .rodata", ".balign 64", f".local rf_code_{number}", f"rf_code_{number}:")
    content = (f'.incbin \\"code_{number}.cubin\\"', ".previous")
    return "__asm__(" + " ".join(f'"{line}\\n"' for line in (*lines, *content)) + ");"
