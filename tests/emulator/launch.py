"""What a kernel is launched with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redfuser.codegen.gpu.value import Argument, GpuProgram


@dataclass(frozen=True)
class Launch:
    """One launch.

    Args:
        grid, block: extents along x, y, z.
        arguments: in the kernel's own order.
        blocks: numbers of those to run, x fastest; none for all.
    """

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    dynamic_shared_bytes: int
    arguments: tuple[Argument, ...]
    blocks: tuple[int, ...] = ()


def launches_of(program: GpuProgram, blocks: Sequence[tuple[int, ...]] | None = None) -> Iterator[tuple[str, Launch]]:
    """The source of each kernel of a compiled program with its launch, in order.

    Args:
        blocks: of each launch, which to run; all if not given.
    """
    for kernel, chosen in zip(program.kernels, blocks or [()] * len(program.kernels), strict=True):
        extents = (kernel.grid, kernel.block, kernel.dynamic_shared)
        yield kernel.source, Launch(kernel.entry, *extents, kernel.arguments, chosen)
