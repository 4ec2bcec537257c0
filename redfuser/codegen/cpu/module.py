"""The whole model as one library: fused kernels in their places, the rest scheduled, all as machine code.

Imports TVM: import it lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from redfuser.codegen.assembly import Assembly, count_calls, fuse_elementwise, to_machine
from redfuser.codegen.cpu.alignment import any_alignment
from redfuser.codegen.cpu.remainder import Remainder
from redfuser.codegen.cpu.remainder.reshapes import in_place
from redfuser.codegen.cpu.values.float8 import spell_out_casts
from redfuser.codegen.cpu.weights import Weights, take_weights
from redfuser.codegen.empty import compute_nothing
from redfuser.codegen.modulo import hide_dividends
from redfuser.codegen.refusal import FAILURES
from redfuser.codegen.rewire import Replacement, rewire
from redfuser.targets import CpuTarget

__all__ = ["Assembly", "Replacement", "assemble"]


@dataclass(frozen=True)
class CpuAssembly(Assembly):
    """A compiled module for a processor.

    Args:
        weights: what isn't among the executable's constants.
    """

    weights: Weights = field(default_factory=lambda: Weights(()))

    def sources(self, folder: Path) -> list[str]:
        """Files to compile and link with the machine code, written to a folder."""
        return self.weights.write(folder)


def assemble(module: tvm.IRModule, replacements: Sequence[Replacement], target: CpuTarget) -> Assembly:
    """Compile a lowered model.

    Args:
        module: of a :class:`redfuser.frontend.LoweredModel`.
        replacements: kernels that take the place of bindings; see :func:`redfuser.codegen.rewire.rewire`.
        target: the processor to compile for.

    Raises:
        ValueError: a replacement depends on itself.
    """
    remainder = Remainder(fuse_elementwise(in_place(compute_nothing(rewire(module, replacements)))), target)
    llvm = tvm.target.Target(target.llvm())
    module = remainder.schedule()
    try:
        executable, weights = _build(module, llvm)
    except FAILURES:
        if not remainder.withdraw(llvm):
            raise
        module = remainder.schedule()
        executable, weights = _build(module, llvm)
    calls = count_calls(module)
    return CpuAssembly(module, executable, remainder.kinds, calls, machine=target.machine, weights=weights)


def _build(module: tvm.IRModule, llvm: tvm.target.Target) -> tuple[Any, Weights]:
    with tvm.transform.PassContext(opt_level=3):
        module, weights = take_weights(any_alignment(hide_dividends(spell_out_casts(module))))
        return relax.build(module, target=llvm, relax_pipeline=to_machine()), weights
