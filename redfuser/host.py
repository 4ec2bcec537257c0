"""What the processor of this machine can do, from the operating system. No TVM.

LLVM's own guess by family and model goes wrong on virtual machines (it takes a Sapphire Rapids for a Rocket Lake and
loses AMX), so features come from the CPU flags the kernel reports.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from redfuser.errors import UnsupportedTargetError

#: psABI levels, best first: what each adds to the one below (kernel's flag names) and its vector width
LEVELS: tuple[tuple[str, frozenset[str], int], ...] = (
    ("x86-64-v4", frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}), 512),
    ("x86-64-v3", frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}), 256),
    ("x86-64-v2", frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}), 128),
    ("x86-64", frozenset(), 128),
)

#: kernel's flag -> LLVM feature, for what no level covers and generated code can use
EXTRA_FEATURES: dict[str, str] = {
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
    "amx_tile": "amx-tile",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_vnni": "avx512vnni",
    "avx512vbmi": "avx512vbmi",
    "avx_vnni": "avxvnni",
}

CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Host:
    """Level, further LLVM features, vector width, usable cores and data caches (KB) of this machine."""

    level: str
    features: tuple[str, ...]
    vector_bits: int
    cores: int
    l1_kb: int
    l2_kb: int


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_host() -> Host:
    """Describe this machine.

    Raises:
        UnsupportedTargetError: it isn't x86-64 Linux.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise UnsupportedTargetError(
            f"the host is {platform.system()} on {platform.machine()}; CPU code is generated for x86-64 Linux only",
            "name a target to build for another machine: redfuser targets",
        )
    level, features, vector_bits = classify(read_flags(CPUINFO.read_text(encoding="utf-8")))
    return Host(level, features, vector_bits, usable_cores(), cache_kb(1, default=32), cache_kb(2, default=256))


def read_flags(cpuinfo: str) -> frozenset[str]:
    """The CPU flags of the first processor in the text of ``/proc/cpuinfo``."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def classify(flags: frozenset[str]) -> tuple[str, tuple[str, ...], int]:
    """Highest psABI level whose flags are all present, LLVM features beyond it, and vector width in bits."""
    for level, _, vector_bits in LEVELS:
        if not missing_features(level, (), flags):
            # AVX-512 features make no sense to LLVM without the level that holds their registers.
            usable = [flag for flag in EXTRA_FEATURES if vector_bits == 512 or not flag.startswith(("avx512", "amx"))]
            return level, tuple(sorted(EXTRA_FEATURES[flag] for flag in usable if flag in flags)), vector_bits
    raise AssertionError("the last level needs nothing")


def missing_features(level: str, features: tuple[str, ...], flags: frozenset[str]) -> tuple[str, ...]:
    """Kernel's flag names that code for a level and LLVM features needs and a processor lacks, sorted."""
    names = [name for name, _, _ in LEVELS]
    if level not in names:
        return (level,)
    first = names.index(level)
    needed = frozenset[str]().union(*(added for _, added, _ in LEVELS[first:]))
    needed |= {flag for flag, feature in EXTRA_FEATURES.items() if feature in features}
    return tuple(sorted(needed - flags))


def cache_kb(level: int, default: int, root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Size in KB of the data or unified cache of a level; ``default`` where the system doesn't tell."""
    for folder in sorted(root.glob("index*")):
        try:
            found, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if found == str(level) and kind in ("Data", "Unified") and size.endswith("K"):
            return int(size[:-1])
    return default
