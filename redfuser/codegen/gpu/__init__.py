"""GPU code generation: tile programs to TileLang to machine code, on machines without a GPU."""

from redfuser.codegen.gpu.build import Builder
from redfuser.codegen.gpu.emission.emit import emit
from redfuser.codegen.gpu.emission.script import Script
from redfuser.codegen.gpu.value import Argument, GpuKernel, GpuProgram, Resources, TensorMap
from redfuser.codegen.refusal import Refused

__all__ = [
    "Argument",
    "Builder",
    "GpuKernel",
    "GpuProgram",
    "Refused",
    "Resources",
    "Script",
    "TensorMap",
    "emit",
]
