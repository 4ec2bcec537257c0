"""The CPU back end: tile programs through TIR and LLVM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Assembly, Kernel, MakeProduct, Placement
from redfuser.targets import CpuTarget
from redfuser.tile.ir import TileProgram
from redfuser.tile.untuned.choice import Choice

if TYPE_CHECKING:
    from tvm import IRModule


@dataclass(frozen=True)
class CpuBackend:
    """Implements :class:`redfuser.codegen.backend.Backend`; a kernel's code is its PrimFunc."""

    target: CpuTarget

    def __enter__(self) -> CpuBackend:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was started."""

    def require_tools(self) -> None:
        """LLVM comes with TVM, and a linker is needed only where something is written."""

    def choices(self, cascade: Cascade, derivation: Derivation) -> tuple[Choice, ...]:
        """One, by the rules of :mod:`redfuser.tile.untuned`: code is generated for every schedule or for no one."""
        from redfuser.tile import default_schedule

        return (default_schedule(cascade, derivation, self.target),)

    def generate(self, program: TileProgram, seed: int) -> Kernel:
        """TIR; run here against the interpreter, if this processor can."""
        from redfuser.codegen.cpu import check_compiled, compile_kernel, generate, read_assembly

        function = generate(program, self.target)
        kernel = compile_kernel(function, self.target, len(program.outputs))
        used = read_assembly(kernel.assembly(), self.target.machine)
        error = check_compiled(program, kernel, self.target, seed)
        return Kernel(program, function, {"kernel.tir": f"{function.script()}\n"}, used, error)

    def find_products(self, module: IRModule, placements: Sequence[Placement], products: MakeProduct) -> None:
        """None: they are scheduled with the rest."""

    def assemble(
        self, module: IRModule, placements: Sequence[Placement], products: MakeProduct | None = None
    ) -> Assembly:
        """One library of LLVM machine code; products are scheduled with the rest."""
        from redfuser.codegen.cpu.module import assemble
        from redfuser.codegen.cpu.packed import Packed

        packed = Packed(self.target)
        return assemble(module, [packed.replacement(placement) for placement in placements], self.target)
