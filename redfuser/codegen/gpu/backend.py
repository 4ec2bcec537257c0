"""The GPU back end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Assembly, Kernel, Placement
from redfuser.errors import UnsupportedTargetError
from redfuser.targets import GpuTarget
from redfuser.tile.ir import Schedule, TileProgram

if TYPE_CHECKING:
    from tvm import IRModule


@dataclass(frozen=True)
class GpuBackend:
    """Implements :class:`redfuser.codegen.backend.Backend`: analysis only in this version."""

    target: GpuTarget

    def require_tools(self) -> None:
        """Refuse to generate code."""
        self._refuse()

    def schedule(self, cascade: Cascade, derivation: Derivation) -> Schedule:
        """The strategy alone."""
        return Schedule("single-segment" if derivation.incremental else "resident")

    def generate(self, program: TileProgram, seed: int) -> Kernel:
        """Refuse."""
        self._refuse()

    def assemble(self, module: IRModule, placements: Sequence[Placement]) -> Assembly:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UnsupportedTargetError(
            f"no code generator for {self.target.name} in this version",
            "compile for a CPU target; redfuser targets lists them",
        )
