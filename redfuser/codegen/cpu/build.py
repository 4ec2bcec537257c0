"""Kernels as machine code: compiling one alone, calling it with NumPy arrays, and what it uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from redfuser.codegen.cpu.assembly_text import read_assembly
from redfuser.expr.evaluate import numpy_dtype
from redfuser.machine.host import CPUINFO, missing_features, read_flags
from redfuser.machine.threads import require_workers
from redfuser.targets import CpuTarget

if TYPE_CHECKING:
    from tvm.runtime import Executable, Tensor
    from tvm.tirx import PrimFunc, Var

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CompiledKernel:
    """A function as machine code.

    Args:
        function: as generated; its last ``outputs`` parameters are written.
        outputs: how many.
        executable: the compiled module that holds it.
    """

    function: PrimFunc
    outputs: int
    executable: Executable

    def __call__(self, *inputs: Array, **sizes: int) -> tuple[Array, ...]:
        """Run on NumPy arrays; gives new ones.

        Args:
            sizes: of every symbolic dimension.

        Raises:
            ValueError: an array hasn't the parameter's shape or type.
        """
        tensors = self.tensors(*inputs, **sizes)
        self.run(*tensors, **sizes)
        return tuple(tensor.numpy() for tensor in tensors[len(inputs) :])

    def tensors(self, *inputs: Array, **sizes: int) -> list[Tensor]:
        """Arguments for :meth:`run`: copies of the inputs, and outputs that hold NaN."""
        from tvm.arith import Analyzer
        from tvm.runtime import tensor
        from tvm.tirx import IntImm
        from tvm.tirx.stmt_functor import substitute

        known = {p: IntImm("int64", sizes[p.name]) for p in self._dims()}
        parameters = [self.function.buffer_map[p] for p in self.function.params if p in self.function.buffer_map]
        value_of = Analyzer().simplify  # a size may be a polynomial of the dimensions, such as 4·batch
        shapes = [tuple(int(value_of(substitute(n, known))) for n in parameter.shape) for parameter in parameters]
        types = [numpy_dtype(str(parameter.dtype)) for parameter in parameters]
        for number, value in enumerate(inputs):
            if value.shape != shapes[number] or value.dtype != types[number]:
                wanted = f"{types[number]}{list(shapes[number])}"
                raise ValueError(f"argument {number} is {value.dtype}{list(value.shape)} instead of {wanted}")
        blank = [np.full(s, np.nan if t.kind == "f" else 0, t) for s, t in zip(shapes, types, strict=True)]
        return [tensor(np.asarray(value, order="C")) for value in (*inputs, *blank[len(inputs) :])]

    def run(self, *tensors: Tensor, **sizes: int) -> None:
        """Run on tensors of the runtime, without copies: what to time."""
        require_workers()
        self.executable[self.function.attrs["global_symbol"]](*tensors, *(sizes[p.name] for p in self._dims()))

    def _dims(self) -> list[Var]:
        """The parameters that are symbolic dimensions."""
        return [p for p in self.function.params if p not in self.function.buffer_map]

    def assembly(self) -> str:
        """The machine code as text."""
        return str(self.executable.mod.inspect_source("asm"))


def compile_kernel(function: PrimFunc, target: CpuTarget, outputs: int = 1) -> CompiledKernel:
    """Machine code of one function alone.

    Args:
        function: as :func:`redfuser.codegen.cpu.generate` makes it.
        target: what to compile for; it need not run here.
        outputs: number of parameters, the last ones, that are written.
    """
    import tvm

    from redfuser.codegen.cpu.values.float8 import spell_out_casts
    from redfuser.codegen.modulo import hide_dividends

    machine = tvm.target.Target(target.llvm())
    module = spell_out_casts(tvm.IRModule({str(function.attrs["global_symbol"]): function}))
    with machine:
        return CompiledKernel(function, outputs, tvm.compile(hide_dividends(module), target=machine))


def runs_here(target: CpuTarget) -> bool:
    """Whether this machine's processor has every feature that code for a target may use."""
    if not CPUINFO.exists():
        return False
    return not missing_features(target.arch, target.features, read_flags(CPUINFO.read_text(encoding="utf-8")))


def resources(function: PrimFunc, target: CpuTarget) -> dict[str, int]:
    """What a function's machine code uses, by name: see :func:`read_assembly`."""
    return read_assembly(compile_kernel(function, target).assembly(), target.machine)
