"""The whole model as one library: fused kernels in their places, the rest scheduled, all as machine code.

Imports TVM: import it lazily.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.support import cc

from redfuser.codegen.cpu.remainder import Remainder
from redfuser.codegen.cpu.remainder.function import FAILURES
from redfuser.codegen.rewire import Replacement, rewire
from redfuser.errors import MissingToolError
from redfuser.targets import CpuTarget

__all__ = ["Assembly", "Replacement", "assemble"]

#: Without a build id (a hash, but not of ours to choose) and symbols, equal code gives equal bytes.
LINK_OPTIONS = ("-Wl,--build-id=none", "-Wl,-s")


@dataclass(frozen=True)
class Assembly:
    """A compiled module.

    Args:
        module: Relax ``main`` and every kernel, scheduled: what was compiled.
        executable: TVM's; holds machine code and constants.
        schedules: kernel name -> how it is computed: ``fused`` for a replacement, otherwise see
            :class:`redfuser.codegen.cpu.remainder.function.Scheduled`.
        calls: kernel name -> how often ``main`` calls it.
    """

    module: tvm.IRModule
    executable: Any
    schedules: Mapping[str, str]
    calls: Mapping[str, int]

    def write(self, path: Path) -> None:
        """Write the shared library.

        Raises:
            MissingToolError: there is no C++ compiler to link with.
        """
        if cc.get_cc() is None:
            raise MissingToolError("no C++ compiler was found to link the module with", "install g++ or clang")
        self.executable.export_library(str(path), options=list(LINK_OPTIONS))

    def statistics(self) -> dict[str, int]:
        """Number of kernels by the way they are computed."""
        return dict(sorted(Counter(self.schedules.values()).items()))

    def __str__(self) -> str:
        lines = [f"{kind}: {count}" for kind, count in self.statistics().items()]
        lines += [f"{name}: {kind}, called {self.calls[name]} times" for name, kind in self.schedules.items()]
        return "\n".join([*lines, self.module.script(show_meta=False)])


def assemble(module: tvm.IRModule, replacements: Sequence[Replacement], target: CpuTarget) -> Assembly:
    """Compile a lowered model.

    Args:
        module: of a :class:`redfuser.frontend.LoweredModel`.
        replacements: kernels that take the place of bindings; see :func:`redfuser.codegen.rewire.rewire`.
        target: the processor to compile for.

    Raises:
        ValueError: a replacement depends on itself.
    """
    remainder = Remainder(_fuse(rewire(module, replacements)), target)
    llvm = tvm.target.Target(target.llvm())
    module = remainder.schedule()
    try:
        executable = _build(module, llvm)
    except FAILURES:
        if not remainder.withdraw(llvm):
            raise
        module = remainder.schedule()
        executable = _build(module, llvm)
    return Assembly(module, executable, remainder.kinds, _count_calls(module))


def _build(module: tvm.IRModule, llvm: tvm.target.Target) -> Any:
    with tvm.transform.PassContext(opt_level=3):
        return relax.build(module, target=llvm, relax_pipeline=_to_machine())


def _fuse(module: tvm.IRModule) -> tvm.IRModule:
    """Element-wise producers and consumers into common PrimFuncs; what only changes a shape becomes a view."""
    passes = [
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
        relax.transform.RewriteDataflowReshape(),
    ]
    return tvm.transform.Sequential(passes)(module)


def _to_machine() -> tvm.transform.Pass:
    """From calls of PrimFuncs to instructions of the virtual machine, memory planned.

    TVM's own list with what is done by now left out: it reads reshapes off functions that aren't scheduled yet.
    """
    passes = [
        relax.transform.ToNonDataflow(),
        relax.transform.RemovePurityChecking(),
        relax.transform.CallTIRRewrite(),
        relax.transform.StaticPlanBlockMemory(),
        relax.transform.LowerAllocTensor(),
        relax.transform.KillAfterLastUse(),
        relax.transform.LowerRuntimeBuiltin(),
        relax.transform.ComputePrimValue(),
        relax.transform.VMShapeLower(),
        relax.transform.AttachGlobalSymbol(),
    ]
    return tvm.transform.Sequential(passes)


def _count_calls(module: tvm.IRModule) -> dict[str, int]:
    calls: Counter[str] = Counter()
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Call) and value.op == tvm.ir.Op.get("relax.call_tir"):
                calls[value.args[0].name_hint] += 1
    return dict(calls)
