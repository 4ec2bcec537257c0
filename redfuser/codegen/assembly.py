"""A whole model as one library, and the steps towards it that all targets share. Imports TVM: import it lazily."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import tvm
from tvm import relax
from tvm_ffi.libinfo import find_dlpack_include_path, find_include_path

from redfuser.codegen.backend import Kernel
from redfuser.codegen.library import pack_imports
from redfuser.codegen.linker import find_linker
from redfuser.codegen.results import own_results
from redfuser.codegen.sources import keep_sources_apart
from redfuser.errors import MissingToolError

#: Without a build id (a hash, but not of ours to choose) and symbols, equal code gives equal bytes.
LINK_OPTIONS = ("-Wl,--build-id=none", "-Wl,-s")


@dataclass(frozen=True)
class Assembly:
    """A compiled module.

    Args:
        module: Relax ``main`` and every kernel, scheduled: what was compiled.
        executable: TVM's; holds machine code and constants.
        schedules: kernel name -> how it is computed: ``fused`` for a replacement, otherwise what the back end's
            ``remainder`` calls it.
        calls: kernel name -> how often ``main`` calls it.
        link_options: further options for the linker.
        kernels: made while it was put together.
        texts: sources of all other kernels, by file name, where they are worth reading.
        machine: the processor that runs ``main``, as :func:`platform.machine` names it.
    """

    module: tvm.IRModule
    executable: Any
    schedules: Mapping[str, str]
    calls: Mapping[str, int]
    link_options: tuple[str, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    machine: str = "x86_64"

    def write(self, path: Path) -> None:
        """Write the shared library.

        Raises:
            MissingToolError: there is no C++ compiler to link with, or it fails.
            OSError: the folder for temporary files is full.
        """
        linker = find_linker(self.machine)
        includes = dict.fromkeys((find_include_path(), find_dlpack_include_path()))
        options = [*LINK_OPTIONS, *self.link_options, *(f"-I{folder}" for folder in includes)]
        with TemporaryDirectory() as folder:
            files = {"addons": self.sources(Path(folder)), "workspace_dir": folder}
            try:
                self.executable.export_library(
                    str(path), fpack_imports=pack_imports, cc=linker, options=options, **files
                )
            except RuntimeError as error:  # TVM's, with all that the compiler printed
                said = [line.strip() for line in str(error).splitlines()[1:] if "error" in line.lower()]
                raise MissingToolError(
                    f"{linker} can't link the module: {said[0] if said else error}",
                    f"it needs room in {gettempdir()!r} (TMPDIR) and where the module goes, and a working compiler",
                ) from error

    def sources(self, folder: Path) -> list[str]:
        """Files to compile and link with the machine code, written to a folder."""
        return []

    def statistics(self) -> dict[str, int]:
        """Number of kernels by the way they are computed."""
        return dict(sorted(Counter(self.schedules.values()).items()))

    def __str__(self) -> str:
        lines = [f"{kind}: {count}" for kind, count in self.statistics().items()]
        lines += [f"{name}: {kind}, called {self.calls.get(name, 0)} times" for name, kind in self.schedules.items()]
        return "\n".join([*lines, self.module.script(show_meta=False)])


def fuse_elementwise(module: tvm.IRModule) -> tvm.IRModule:
    """Element-wise producers and consumers into common PrimFuncs; what only changes a shape becomes a view.

    Results become arrays of their own, after the passes that would see through a copy.
    """
    passes = [
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
        relax.transform.RewriteDataflowReshape(),
    ]
    return own_results(tvm.transform.Sequential(passes)(keep_sources_apart(module)))


def to_machine() -> tvm.transform.Pass:
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


def count_calls(module: tvm.IRModule) -> dict[str, int]:
    """How often ``main`` calls each kernel: a PrimFunc, or a symbol that is linked in."""
    calls: Counter[str] = Counter()
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if not isinstance(value, relax.Call):
                continue
            if value.op == tvm.ir.Op.get("relax.call_tir"):
                calls[value.args[0].name_hint] += 1
            elif value.op == tvm.ir.Op.get("relax.call_dps_packed"):
                calls[str(value.args[0].global_symbol)] += 1
    return dict(calls)
