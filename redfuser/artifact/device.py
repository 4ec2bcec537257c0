"""The device that an artifact runs on, and whether this machine has it."""

from __future__ import annotations

import ctypes
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from redfuser.errors import MissingToolError, UsageError
from redfuser.machine.host import CPUINFO, missing_features, read_flags
from redfuser.report.value import TargetInfo

#: The CUDA runtime that TVM was built with.
CUDART = "libcudart.so.13"


def check_device(target: TargetInfo, wanted: str | None) -> int:
    """The number of the device that ``wanted`` asks for.

    Args:
        target: what the module was compiled for.
        wanted: ``cpu``, ``cuda`` or ``cuda:1``; ``None`` is the first device of the target's kind.

    Raises:
        UsageError: it isn't written like that, or the module was compiled for another kind of device.
        MissingToolError: the module is for CPUs, and this processor lacks what it needs.
    """
    kind = "cpu" if target.kind == "cpu" else "cuda"
    match = re.fullmatch(r"(cpu|cuda)(?::(\d{1,3}))?", kind if wanted is None else str(wanted), re.ASCII)
    if match is None or (match[1] == "cpu" and int(match[2] or 0) > 0):
        raise UsageError(f"--device {wanted!r} isn't cpu, cuda or cuda:N", "for example --device cuda:1")
    if (match[1] == "cpu") != (target.kind == "cpu"):
        raise UsageError(
            f"the module was compiled for {target.name} ({target.arch}); it can't run on {match[1]}",
            "compile it for another target, or leave --device out",
        )
    if target.kind == "cpu" and CPUINFO.is_file():
        check_processor(target, read_flags(CPUINFO.read_text(encoding="utf-8")))
    return int(match[2] or 0)


def check_processor(target: TargetInfo, flags: frozenset[str]) -> None:
    """Refuse code that would stop with an illegal instruction.

    Raises:
        MissingToolError: names what the processor with these kernel flags lacks.
    """
    missing = missing_features(target.arch, target.features, flags) if target.kind == "cpu" and flags else ()
    if missing:
        raise MissingToolError(
            f"the module was compiled for {target.name}; this processor lacks {', '.join(missing)}",
            "compile with --target cpu on this machine, or for a lesser target: redfuser targets",
        )


def open_device(target: TargetInfo, number: int) -> Any:
    """TVM's device. Imports TVM for GPUs, and its foreign function interface alone for processors.

    Raises:
        MissingToolError: there is no such device, or it can't run the module's code.
    """
    if target.kind == "cpu":
        import tvm_ffi

        return tvm_ffi.device("cpu", 0)
    import tvm

    device = tvm.cuda(number)
    if not device.exist:
        _load_cuda_runtime(Path(tvm.__file__).parent / "lib")
        device = tvm.cuda(number)
    if not device.exist:
        raise MissingToolError(
            f"the module was compiled for {target.name}; this machine has no usable NVIDIA GPU number {number}",
            f"run it where there is one; it needs driver 580 or newer and {CUDART} (pip install nvidia-cuda-runtime)",
        )
    check_capability(target, str(device.compute_version))
    return device


def check_capability(target: TargetInfo, capability: str) -> None:
    """Refuse a GPU that can't run the machine code of the target's architecture.

    Args:
        capability: the device's, such as ``9.0``.

    Raises:
        MissingToolError: code for ``sm_90a`` runs on 9.0 alone; code for ``sm_80`` on 8.0 and later minor versions.
    """
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", target.arch)
    assert match is not None, target.arch
    major, minor = map(int, capability.split("."))
    fits = major == int(match[1]) and (minor == int(match[2]) if match[3] == "a" else minor >= int(match[2]))
    if not fits:
        raise MissingToolError(
            f"the module was compiled for {target.name} ({target.arch}); this GPU has compute capability {capability}",
            "compile it for this device: redfuser targets",
        )


def _load_cuda_runtime(folder: Path) -> None:
    """TVM loads its CUDA part at import if the loader finds the CUDA runtime; pip puts that where it doesn't look."""
    spec = find_spec("nvidia")
    for place in list(spec.submodule_search_locations or ()) if spec is not None else []:
        library = Path(place) / "cu13" / "lib" / CUDART
        if library.is_file():
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
            break
    try:
        ctypes.CDLL(str(folder / "libtvm_runtime_cuda.so"), ctypes.RTLD_GLOBAL)
    except OSError:
        return  # no driver, or no runtime: the caller says so
