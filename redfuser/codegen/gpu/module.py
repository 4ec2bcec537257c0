"""The whole model as one library for a GPU: fused kernels in their places, the rest scheduled, all machine code.

Imports TVM: import it lazily.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from redfuser.codegen.assembly import Assembly, count_calls, fuse_elementwise, to_machine
from redfuser.codegen.backend import MakeProduct
from redfuser.codegen.empty import compute_nothing
from redfuser.codegen.gpu.launch import build_programs, program_symbol, static_object
from redfuser.codegen.gpu.launch.tables import PACKED_PREFIX
from redfuser.codegen.gpu.remainder import machine_code, schedule_remainder
from redfuser.codegen.gpu.remainder.device import PIPELINE
from redfuser.codegen.gpu.remainder.products import Product, find_products
from redfuser.codegen.gpu.tools.symbols import undefined_symbols
from redfuser.codegen.gpu.value import GpuProgram
from redfuser.codegen.modulo import hide_dividends
from redfuser.codegen.rewire import Replacement, rewire
from redfuser.targets import GpuTarget

HOST = {"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "mcpu": "x86-64"}

#: The launcher opens the driver itself; its symbols stay inside.
LINK_OPTIONS = ("-Wl,--exclude-libs,ALL", "-ldl", "-pthread")


@dataclass(frozen=True)
class GpuAssembly(Assembly):
    """A compiled module for a GPU."""

    def write(self, path: Path) -> None:
        """Write the shared library.

        Raises:
            MissingToolError: there is no C++ compiler to link with.
            AssertionError: a kernel was left out; a bug of ours.
        """
        super().write(path)
        missing = [name for name in undefined_symbols(path) if name.startswith(PACKED_PREFIX)]
        assert not missing, f"kernels are called but not in the library: {', '.join(missing)}"


@dataclass(frozen=True)
class Fused:
    """A fused program and the place in ``main`` it takes: see :class:`redfuser.codegen.rewire.Replacement`."""

    program: GpuProgram
    inputs: tuple[relax.Expr, ...]
    outputs: tuple[relax.Var, ...]


def assemble(
    module: tvm.IRModule, fused: Sequence[Fused], target: GpuTarget, products: MakeProduct | None = None
) -> Assembly:
    """Compile a lowered model.

    Args:
        module: of a :class:`redfuser.frontend.LoweredModel`.
        products: makes kernels of lone matrix products; without it TVM does.

    Raises:
        ValueError: a fused program depends on itself.
        MissingToolError, CudaError: see :mod:`redfuser.codegen.gpu.tools.toolkit`.
    """
    machine = tvm.target.Target({"kind": "cuda", "arch": target.arch.rstrip("af")}, host=HOST)
    module = place(module, fused)
    calls = find_products(module, products) if products is not None else ()
    lone = [Fused(_of_the_model(call.product), call.inputs, (call.output,)) for call in calls]
    module = rewire(module, [_replacement(each) for each in lone])
    module, kinds = schedule_remainder(module, machine)
    programs = {each.program.name: each.program for each in (*fused, *lone)}
    executable, texts = _build(module, list(programs.values()), machine, target.arch)
    for kind, group in (("fused", fused), ("product", lone)):
        kinds |= {program_symbol(each.program.name): kind for each in group}
    kernels = {call.product.kernel.program.name: call.product.kernel for call in calls}
    return GpuAssembly(module, executable, kinds, count_calls(module), LINK_OPTIONS, tuple(kernels.values()), texts)


def place(module: tvm.IRModule, fused: Sequence[Fused]) -> tvm.IRModule:
    """The model with fused programs in their places, and the element-wise operations left fused with each other."""
    return fuse_elementwise(compute_nothing(rewire(module, [_replacement(each) for each in fused])))


def _of_the_model(product: Product) -> GpuProgram:
    """A product's kernels, called with tensors in the model's shapes."""
    code: GpuProgram = product.kernel.code
    return replace(code, inputs=product.inputs, outputs=product.outputs)


def _replacement(each: Fused) -> Replacement:
    program = each.program
    sizes = tuple(dim.name for dim in program.dims), program.derived
    return Replacement(None, program_symbol(program.name), each.inputs, each.outputs, program.workspaces, *sizes)


def _build(
    module: tvm.IRModule, programs: Sequence[GpuProgram], machine: tvm.target.Target, arch: str
) -> tuple[Any, dict[str, str]]:
    """The executable, and the CUDA of what TVM generates for it, by file name."""
    if programs:
        symbols = [program_symbol(program.name) for program in programs]
        module = module.with_attr("external_mods", [static_object(build_programs(programs), symbols)])
    with tvm.transform.PassContext(opt_level=3), machine, machine_code(arch) as texts:
        pipelines = {"relax_pipeline": to_machine(), "tir_pipeline": PIPELINE}
        executable = relax.build(hide_dividends(module), target=machine, **pipelines)
    return executable, {"kernel.cu": "\n".join(texts)} if texts else {}
