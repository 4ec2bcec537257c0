"""What a GPU is to the compiler. No TVM."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

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
