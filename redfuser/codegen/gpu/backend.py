"""The GPU back end: tile programs through TileLang, everything else through TVM; machine code by nvcc."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Assembly, Kernel, Placement
from redfuser.reason import Reason
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Schedule, TileProgram

if TYPE_CHECKING:
    from tvm import IRModule


class NotGenerated(Exception):
    """A cascade for which there is no GPU kernel."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True)
class GpuBackend:
    """Implements :class:`redfuser.codegen.backend.Backend`; a kernel's code is its :class:`GpuProgram`."""

    target: GpuTarget

    def require_tools(self) -> None:
        """nvcc, and the host compiler that it needs."""
        from redfuser.codegen.gpu.toolkit import find_nvcc

        find_nvcc()

    def schedule(self, cascade: Cascade, derivation: Derivation) -> Schedule:
        """The strategy alone."""
        return Schedule("single-segment" if derivation.incremental else "resident")

    def generate(self, program: TileProgram, seed: int) -> Kernel:
        """Refuse: tile programs have no GPU code yet."""
        raise NotGenerated(Reason("no-gpu-kernel", "this version generates no GPU kernels for cascades"))

    def assemble(self, module: IRModule, placements: Sequence[Placement]) -> Assembly:
        """One library; every kernel as machine code for the target."""
        from redfuser.codegen.gpu.module import Fused, assemble

        fused = [Fused(p.kernel.code, p.inputs, p.outputs) for p in placements]
        return assemble(module, fused, self.target)
