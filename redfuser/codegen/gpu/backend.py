"""The GPU back end: tile programs through TileLang, everything else through TVM; machine code by nvcc."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

from redfuser.algebra.derivation import Derivation
from redfuser.cascade.model import Cascade
from redfuser.codegen.backend import Assembly, Kernel, MakeProduct, Placement
from redfuser.codegen.refusal import Refused
from redfuser.options import Fp32
from redfuser.targets import GpuTarget
from redfuser.tile.ir import TileProgram
from redfuser.tile.untuned.choice import Choice

if TYPE_CHECKING:
    from tvm import IRModule

    from redfuser.codegen.gpu.build import Builder
    from redfuser.codegen.gpu.module import Fused
    from redfuser.codegen.gpu.value import GpuKernel, GpuProgram

#: A few spilled bytes cost nothing that shows; more, and another schedule is tried.
SPILLED_BYTES = 16


@dataclass
class GpuBackend:
    """Implements :class:`redfuser.codegen.backend.Backend`; a kernel's code is its :class:`GpuProgram`."""

    target: GpuTarget
    fp32: Fp32 = "tf32"
    _stack: ExitStack = field(default_factory=ExitStack, init=False)
    _builder: Builder | None = field(default=None, init=False)

    def __enter__(self) -> GpuBackend:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._builder = None
        self._stack.close()

    def require_tools(self) -> None:
        """TileLang, nvcc, and the host compiler that it needs."""
        from redfuser.codegen.gpu.tools.toolchain import find_toolchain

        find_toolchain()

    def choices(self, cascade: Cascade, derivation: Derivation) -> tuple[Choice, ...]:
        """Those of :mod:`redfuser.codegen.gpu.schedule`, the most promising first."""
        from redfuser.codegen.gpu.schedule import candidates
        from redfuser.codegen.gpu.why import why

        found = candidates(cascade, derivation, self.target)
        return tuple(Choice(schedule, why(cascade, schedule, self.target)) for schedule in found)

    def generate(self, program: TileProgram, seed: int) -> Kernel:
        """Machine code, within the target's resources by the compiler's report; it can't be run here.

        Raises:
            Refused: there is none, with the reason.
            MissingToolError: the ``gpu`` extra isn't installed.
        """
        built = self._started().build(program, self.target)
        for kernel in built.kernels:
            if kernel.resources.spills > SPILLED_BYTES:
                raise Refused("spills", f"{kernel.name} doesn't fit the registers", str(kernel.resources))
        return Kernel(program, built, _texts(built), dict(_resources(built)), products=built.products)

    def find_products(self, module: IRModule, placements: Sequence[Placement], products: MakeProduct) -> None:
        """Those that the model holds once the fused kernels are in their places."""
        from redfuser.codegen.gpu.module import place
        from redfuser.codegen.gpu.remainder.products import find_products

        find_products(place(module, _fused(placements)), products)

    def assemble(
        self, module: IRModule, placements: Sequence[Placement], products: MakeProduct | None = None
    ) -> Assembly:
        """One library; every kernel as machine code for the target."""
        from redfuser.codegen.gpu.module import assemble

        return assemble(module, _fused(placements), self.target, products)

    def _started(self) -> Builder:
        from redfuser.codegen.gpu.build import Builder

        if self._builder is None:
            self._builder = self._stack.enter_context(Builder(fp32=self.fp32))
        return self._builder


def _fused(placements: Sequence[Placement]) -> list[Fused]:
    from redfuser.codegen.gpu.module import Fused

    return [Fused(p.kernel.code, p.inputs, p.outputs) for p in placements]


def _texts(program: GpuProgram) -> dict[str, str]:
    """Sources of each kernel, numbered if there are several."""
    texts = {}
    for suffix, kernel in _numbered(program):
        texts[f"kernel{suffix}.py"] = kernel.script.rstrip("\n") + "\n"
        texts[f"kernel{suffix}.cu"] = kernel.source.rstrip("\n") + "\n"
    return texts


def _resources(program: GpuProgram) -> Iterator[tuple[str, int]]:
    for suffix, kernel in _numbered(program):
        yield from ((f"{name}{suffix}", value) for name, value in asdict(kernel.resources).items())


def _numbered(program: GpuProgram) -> Iterator[tuple[str, GpuKernel]]:
    for number, kernel in enumerate(program.kernels):
        yield f"_{number}" if len(program.kernels) > 1 else "", kernel
