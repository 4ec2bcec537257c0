"""The whole model as one library: fused kernels in their places, the rest scheduled, all as machine code.

Imports TVM: import it lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from redfuser.codegen.assembly import Assembly, count_calls, fuse_elementwise, to_machine
from redfuser.codegen.cpu.alignment import any_alignment
from redfuser.codegen.cpu.remainder import Remainder
from redfuser.codegen.cpu.remainder.reshapes import in_place
from redfuser.codegen.cpu.values.float8 import spell_out_casts
from redfuser.codegen.modulo import hide_dividends
from redfuser.codegen.refusal import FAILURES
from redfuser.codegen.rewire import Replacement, rewire
from redfuser.targets import CpuTarget

__all__ = ["Assembly", "Replacement", "assemble"]


def assemble(module: tvm.IRModule, replacements: Sequence[Replacement], target: CpuTarget) -> Assembly:
    """Compile a lowered model.

    Args:
        module: of a :class:`redfuser.frontend.LoweredModel`.
        replacements: kernels that take the place of bindings; see :func:`redfuser.codegen.rewire.rewire`.
        target: the processor to compile for.

    Raises:
        ValueError: a replacement depends on itself.
    """
    remainder = Remainder(fuse_elementwise(in_place(rewire(module, replacements))), target)
    llvm = tvm.target.Target(target.llvm())
    module = remainder.schedule()
    try:
        executable = _build(module, llvm)
    except FAILURES:
        if not remainder.withdraw(llvm):
            raise
        module = remainder.schedule()
        executable = _build(module, llvm)
    calls = count_calls(module)
    return Assembly(module, executable, remainder.kinds, calls, machine=target.machine)


def _build(module: tvm.IRModule, llvm: tvm.target.Target) -> Any:
    with tvm.transform.PassContext(opt_level=3):
        module = any_alignment(hide_dividends(spell_out_casts(module)))
        return relax.build(module, target=llvm, relax_pipeline=to_machine())
