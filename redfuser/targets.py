"""Devices to compile for, described in ``configs/targets/*.toml``."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, replace
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from redfuser.errors import UnsupportedTargetError
from redfuser.machine.host import EXTRA_FEATURES, LAST_LEVEL_KB, LEVELS, Level, named_level, read_host
from redfuser.paths import path_of
from redfuser.records import RecordError, decode


@dataclass(frozen=True)
class CpuTarget:
    """An x86-64 or aarch64 processor.

    Args:
        name: file name of the description, without ``.toml``.
        description: one line for people.
        arch: name of one of :data:`redfuser.machine.host.LEVELS`: ``x86-64`` to ``x86-64-v4``, ``aarch64``.
        features: LLVM features beyond the level, such as ``avx512vnni`` and ``amx-int8``.
        vector_bits: widest vector register.
        cores: threads that kernels are planned for.
        l1_kb: data cache of one core.
        l2_kb: second-level cache of one core.
        clock_ghz: nominal; enters modelled times only.
        bandwidth_gbs: memory bandwidth of all cores together; enters modelled times only.
        l3_kb: last-level cache, which cores may share. Results that exceed it are written past the caches: where it
            isn't known, too large a figure is safer than one too small.
    """

    name: str
    description: str
    arch: str
    vector_bits: int
    cores: int
    l1_kb: int
    l2_kb: int
    clock_ghz: float
    bandwidth_gbs: float
    features: tuple[str, ...] = ()
    l3_kb: int = LAST_LEVEL_KB
    kind: Literal["cpu"] = "cpu"

    def __post_init__(self) -> None:
        if named_level(self.arch) is None:
            raise ValueError(f"arch: {self.arch!r} is not one of {', '.join(each.name for each in LEVELS)}, host")
        unknown = set(self.features) - set(EXTRA_FEATURES.values())
        if unknown:
            raise ValueError(f"features: {sorted(unknown)[0]!r} is not one of {', '.join(EXTRA_FEATURES.values())}")
        if self.features and self.machine != "x86_64":
            raise ValueError(f"features: none beyond its level are used on {self.machine}")

    @property
    def level(self) -> Level:
        """What ``arch`` names."""
        level = named_level(self.arch)
        assert level is not None, self.arch
        return level

    @property
    def machine(self) -> str:
        """The kind of processor, as the operating system names it: ``x86_64`` or ``aarch64``."""
        return self.level.machine

    @property
    def lanes(self) -> int:
        """float32 elements of one vector."""
        return self.vector_bits // 32

    @property
    def multiplies_bytes(self) -> bool:
        """Whether there are vectors of sums of products of bytes, or of pairs of them widened (AVX2)."""
        return self.has_vnni or (self.arch in ("x86-64-v3", "x86-64-v4") and self.vector_bits == 256)

    @property
    def has_vnni(self) -> bool:
        """Whether there are vectors of sums of products of bytes (AVX-512 VNNI)."""
        return self.vector_bits >= 512 and "avx512vnni" in self.features

    @property
    def has_tiles(self) -> bool:
        """Whether there are tiles for products of bytes too (AMX)."""
        return self.has_vnni and {"amx-tile", "amx-int8"} <= set(self.features)

    @property
    def multiplies_bfloat16(self) -> bool:
        """Whether there are vectors of sums of two products of bfloat16 (AVX-512 BF16)."""
        return self.vector_bits >= 512 and "avx512bf16" in self.features

    @property
    def has_nontemporal(self) -> bool:
        """Whether there are stores of vectors past the caches that aren't hints only."""
        return self.machine == "x86_64"

    @property
    def gflops(self) -> float:
        """Nominal float32 peak of all cores: two fused multiply-adds a cycle and core."""
        return self.cores * self.clock_ghz * 2 * 2 * self.lanes

    def llvm(self) -> dict[str, Any]:
        """The argument of ``tvm.target.Target``. A level with explicit features, since ``native`` means generic."""
        wide = ["-prefer-256-bit"] if self.vector_bits >= 512 else []
        return {
            "kind": "llvm",
            "mtriple": f"{self.machine}-unknown-linux-gnu",
            "mcpu": self.arch if self.machine == "x86_64" else "generic",
            "mattr": [f"+{feature}" for feature in self.features] + wide,
            "num-cores": self.cores,
        }

    def __str__(self) -> str:
        extra = f" +{' +'.join(self.features)}" if self.features else ""
        return f"{self.name}: {self.arch}{extra}, {self.cores} cores, {self.vector_bits}-bit vectors"


#: What a GPU may have that code generation asks for, and the architectures that have it.
GPU_FEATURES: dict[str, tuple[str, ...]] = {
    "cp.async": ("sm_80", "sm_86", "sm_89", "sm_90a"),
    "fp8": ("sm_89", "sm_90a"),
    "tma": ("sm_90a",),
    "wgmma": ("sm_90a",),
}


@dataclass(frozen=True)
class GpuTarget:
    """An NVIDIA GPU; figures are the vendor's, dense.

    Args:
        name: file name of the description, without ``.toml``.
        description: one line for people.
        arch: compute capability, such as ``sm_90a``.
        driver: oldest driver that can run what is compiled.
        multiprocessors: streaming multiprocessors.
        memory_gb: device memory.
        bandwidth_gbs: device memory bandwidth.
        fp32_tflops: peak without tensor cores.
        tf32_tflops, fp16_tflops, fp8_tflops, int8_tops: tensor core peaks by input type, float16 standing for
            bfloat16 too; 0 where the device has none.
        l2_mb: second-level cache.
        shared_kb: shared memory of a multiprocessor.
        shared_block_kb: the most one block may use.
        threads: resident threads of a multiprocessor.
        registers: 32-bit registers of a multiprocessor.
        features: names of :data:`GPU_FEATURES`.
    """

    name: str
    description: str
    arch: str
    driver: str
    multiprocessors: int
    memory_gb: int
    bandwidth_gbs: float
    fp32_tflops: float
    tf32_tflops: float
    fp16_tflops: float
    int8_tops: float
    l2_mb: int
    shared_kb: int
    shared_block_kb: int
    threads: int
    registers: int
    fp8_tflops: float = 0.0
    features: tuple[str, ...] = ()
    kind: Literal["gpu"] = "gpu"

    def __post_init__(self) -> None:
        known = tuple(dict.fromkeys(arch for archs in GPU_FEATURES.values() for arch in archs))
        if self.arch not in known:
            raise ValueError(f"arch: {self.arch!r} is not one of {', '.join(known)}")
        for feature in self.features:
            if self.arch not in GPU_FEATURES.get(feature, ()):
                able = [name for name, archs in GPU_FEATURES.items() if self.arch in archs]
                raise ValueError(f"features: {feature!r} is not one of {', '.join(able)}, which {self.arch} can have")
        if self.has("fp8") != (self.fp8_tflops > 0):
            raise ValueError("fp8_tflops: a rate goes with the feature fp8, and none without it")
        if not re.fullmatch(r"\d+(\.\d+)*", self.driver):
            raise ValueError(f"driver: {self.driver!r} is not a version such as 580.65")
        least = min(self.multiprocessors, self.shared_block_kb, self.threads, self.registers)
        if least <= 0 or min(self.bandwidth_gbs, self.fp32_tflops) <= 0:
            raise ValueError("multiprocessors, memory and rates must be positive")

    def has(self, feature: str) -> bool:
        """Whether the device has one of :data:`GPU_FEATURES`."""
        return feature in self.features

    @property
    def peak_tflops(self) -> float:
        """The fastest arithmetic of any type."""
        return max(self.fp32_tflops, self.tf32_tflops, self.fp16_tflops, self.fp8_tflops, self.int8_tops)

    def __str__(self) -> str:
        memory = f"{self.memory_gb} GB at {self.bandwidth_gbs:g} GB/s, L2 {self.l2_mb} MB"
        rates = {"fp32": self.fp32_tflops, "tf32": self.tf32_tflops, "fp16": self.fp16_tflops}
        rates |= {"fp8": self.fp8_tflops, "int8": self.int8_tops}
        peaks = ", ".join(f"{name} {rate:g}" for name, rate in rates.items() if rate)
        block = f"{self.shared_block_kb} KB shared memory a block ({self.shared_kb} KB a multiprocessor)"
        return (
            f"{self.name}: {self.arch}, {self.multiprocessors} multiprocessors, {memory}, {block}, "
            f"{self.registers} registers, {self.threads} threads, peak TOP/s {peaks}, "
            f"{', '.join(self.features)}, driver {self.driver} or newer"
        )


Target = CpuTarget | GpuTarget


def config_folder() -> Path:
    """The folder ``configs``: the installed package, or the checkout's folder when nothing is installed."""
    if find_spec("redfuser_configs") is not None:
        return Path(str(resources.files("redfuser_configs")))
    return Path(__file__).resolve().parents[1] / "configs"


def target_names() -> tuple[str, ...]:
    """Names of the targets that come with redfuser, sorted."""
    return tuple(sorted(path.stem for path in (config_folder() / "targets").glob("*.toml")))


def load_target(name_or_path: str) -> Target:
    """The target of that name, or the one described in a ``.toml`` file.

    ``arch = "host"`` is replaced by what this machine has.

    Raises:
        UsageError: the path of a description can't be one.
        UnsupportedTargetError: no such target, a description that cannot be read, or a host for which
            there is no CPU code.
    """
    own_file = name_or_path.endswith(".toml")
    if not own_file and name_or_path not in target_names():
        near = difflib.get_close_matches(name_or_path, target_names(), n=3, cutoff=0.5)
        raise UnsupportedTargetError(
            f"unknown target {name_or_path!r}",
            f"did you mean {' or '.join(near)}?" if near else "redfuser targets lists the known ones",
        )
    path = path_of(name_or_path) if own_file else config_folder() / "targets" / f"{name_or_path}.toml"
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return _build(path.stem, data)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecordError) as error:
        raise UnsupportedTargetError(
            f"cannot read the target description {name_or_path!r}: {error}",
            "see configs/targets/cpu-avx2.toml and h800.toml for the keys",
        ) from error


def _build(name: str, data: dict[str, Any]) -> Target:
    kind = data.get("kind")
    if kind not in ("cpu", "gpu"):
        raise RecordError(f"kind: {kind!r} is not 'cpu' or 'gpu'")
    if kind == "cpu" and data.get("arch") == "host":
        host = read_host()
        data = {
            "features": list(host.features),
            "vector_bits": host.vector_bits,
            "cores": host.cores,
            "l1_kb": host.l1_kb,
            "l2_kb": host.l2_kb,
            "l3_kb": host.l3_kb,
            **data,
            "arch": host.level,
        }
    described: type[CpuTarget] | type[GpuTarget] = GpuTarget if kind == "gpu" else CpuTarget
    target = decode(described, {"name": name, **data})
    return replace(target, features=tuple(sorted(target.features)))
