"""What a processor is to the compiler. No TVM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from redfuser.machine.host import EXTRA_FEATURES, LAST_LEVEL_KB, LEVELS, Level, named_level


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
