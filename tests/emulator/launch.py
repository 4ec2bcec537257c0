"""What a kernel is launched with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from redfuser.codegen.gpu.value import Argument, GpuProgram


@dataclass(frozen=True)
class Launch:
    """One launch: extents along x, y, z, and the kernel's arguments in its own order."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_shared_bytes: int
    arguments: tuple[Argument, ...]


def launches_of(program: GpuProgram) -> Iterator[tuple[str, Launch]]:
    """The source of each kernel of a compiled program with its launch, in order."""
    for kernel in program.kernels:
        yield kernel.source, Launch(kernel.entry, kernel.grid, kernel.block, kernel.dynamic_shared, kernel.arguments)
