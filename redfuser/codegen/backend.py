"""What the compile asks of a back end, whichever target it is for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from redfuser.algebra.derivation import Derivation
from redfuser.artifact.contents import KernelFiles
from redfuser.cascade.model import Cascade
from redfuser.records import to_text
from redfuser.report.value import NumericError
from redfuser.tile.ir import TileProgram
from redfuser.tile.untuned.choice import Choice

if TYPE_CHECKING:
    from tvm import IRModule


@dataclass(frozen=True)
class Kernel:
    """A tile program as code for a target.

    Args:
        program: the tile program, after scheduling.
        code: the back end's own form, which only it reads.
        texts: the same for people: file name -> text.
        resources: what the machine code uses, by name.
        error: against float64 on the check inputs; None where the target can't run on this machine.
        products: what matrix products are computed in, where the target has several ways.
    """

    program: TileProgram
    code: Any
    texts: Mapping[str, str]
    resources: Mapping[str, int]
    error: NumericError | None = None
    products: tuple[str, ...] = ()

    def files(self) -> KernelFiles:
        """What people may read of it, under ``kernels/NAME/``."""
        texts = {"tile.txt": f"{self.program}\n", **self.texts, "resources.json": to_text(dict(self.resources))}
        return KernelFiles(self.program.name, texts)

    def __str__(self) -> str:
        return "\n".join(text.rstrip("\n") for text in self.texts.values())


@dataclass(frozen=True)
class Placement:
    """A kernel and the place in the model it takes: Relax expressions it reads, variables it defines."""

    kernel: Kernel
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


#: Makes the kernel of a lone matrix product, a canonical cascade, under a name; None leaves it to the back end.
MakeProduct = Callable[[Cascade, str], Kernel | None]


class Assembly(Protocol):
    """A whole model as machine code."""

    @property
    def kernels(self) -> Sequence[Kernel]:
        """Kernels made while it was put together."""

    @property
    def texts(self) -> Mapping[str, str]:
        """Sources of all other kernels, by file name, where they are worth reading."""

    def write(self, path: Path) -> None:
        """Write the shared library.

        Raises:
            MissingToolError: there is no linker.
        """


class Backend(Protocol):
    """Code generation for one target. A context manager: it may keep processes at work between kernels."""

    def __enter__(self) -> Self:
        """Ready to generate."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what was started."""

    def require_tools(self) -> None:
        """Refuse before any work is done.

        Raises:
            MissingToolError: this machine lacks what code is generated with.
        """

    def choices(self, cascade: Cascade, derivation: Derivation) -> tuple[Choice, ...]:
        """How to compute a cascade untuned: what to try, in this order, until a kernel comes of it; at least one."""

    def generate(self, program: TileProgram, seed: int) -> Kernel:
        """Code of one kernel, checked as far as this machine can. Raises whatever says why there is none.

        Args:
            seed: of the inputs it is checked on.
        """

    def find_products(self, module: IRModule, placements: Sequence[Placement], products: MakeProduct) -> None:
        """Have the kernels made of all products that :meth:`assemble` would ask for, and nothing else."""

    def assemble(
        self, module: IRModule, placements: Sequence[Placement], products: MakeProduct | None = None
    ) -> Assembly:
        """The whole model: kernels in their places, the rest compiled.

        Args:
            module: of a :class:`redfuser.frontend.LoweredModel`.
            products: for back ends that multiply matrices as they compute cascades.
        """
