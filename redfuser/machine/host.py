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


@dataclass(frozen=True)
class Level:
    """What generated code may take for granted.

    Args:
        name: psABI level, or the architecture where there is one level only.
        machine: as :func:`platform.machine` says it.
        adds: flags of the kernel that it adds to the level below.
        vector_bits: widest vector register.
        registers: how many of these.
    """

    name: str
    machine: str
    adds: frozenset[str]
    vector_bits: int
    registers: int = 16


#: Best first for each machine; the lowest level of one asks for what every such processor has.
LEVELS: tuple[Level, ...] = (
    Level("x86-64-v4", "x86_64", frozenset({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}), 512, 32),
    Level("x86-64-v3", "x86_64", frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}), 256),
    Level("x86-64-v2", "x86_64", frozenset({"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}), 128),
    Level("x86-64", "x86_64", frozenset({"sse2"}), 128),
    Level("aarch64", "aarch64", frozenset({"asimd"}), 128, 32),
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

#: Last-level cache of a processor of which nothing else is known: as large as servers of few cores have.
LAST_LEVEL_KB = 32768

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
    l3_kb: int


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_host() -> Host:
    """Describe this machine.

    Raises:
        UnsupportedTargetError: it isn't Linux on x86-64 or aarch64.
    """
    machines = tuple(dict.fromkeys(level.machine for level in LEVELS))
    if platform.system() != "Linux" or platform.machine() not in machines:
        raise UnsupportedTargetError(
            f"the host is {platform.system()} on {platform.machine()}; CPU code is generated for Linux on "
            f"{' and '.join(machines)} only",
            "name a target to build for another machine: redfuser targets",
        )
    level, features = classify(read_flags(CPUINFO.read_text(encoding="utf-8")), platform.machine())
    caches = cache_kb(1, default=32), cache_kb(2, default=256), cache_kb(3, default=LAST_LEVEL_KB)
    return Host(level.name, features, level.vector_bits, usable_cores(), *caches)


def read_flags(cpuinfo: str) -> frozenset[str]:
    """The CPU flags of the first processor in the text of ``/proc/cpuinfo``."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):  # x86-64, aarch64
            return frozenset(value.split())
    return frozenset()


def classify(flags: frozenset[str], machine: str) -> tuple[Level, tuple[str, ...]]:
    """Highest level of a machine whose flags are all present, and LLVM features beyond it."""
    levels = [level for level in LEVELS if level.machine == machine]
    level = next((level for level in levels if not missing_features(level.name, (), flags)), levels[-1])
    # AVX-512 features make no sense to LLVM without the level that holds their registers.
    usable = [flag for flag in EXTRA_FEATURES if level.vector_bits == 512 or not flag.startswith(("avx512", "amx"))]
    return level, tuple(sorted(EXTRA_FEATURES[flag] for flag in usable if flag in flags))


def named_level(name: str) -> Level | None:
    """The level of that name."""
    return next((level for level in LEVELS if level.name == name), None)


def missing_features(level: str, features: tuple[str, ...], flags: frozenset[str]) -> tuple[str, ...]:
    """Kernel's flag names that code for a level and LLVM features needs and a processor lacks, sorted."""
    wanted = named_level(level)
    if wanted is None:
        return (level,)
    below = LEVELS[LEVELS.index(wanted) :]
    needed = frozenset[str]().union(*(each.adds for each in below if each.machine == wanted.machine))
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
