"""GPU code generation: tile programs to TileLang to machine code, on machines without a GPU."""

from redfuser.codegen.gpu.value import Argument, GpuKernel, GpuProgram, Resources, TensorMap

__all__ = ["Argument", "GpuKernel", "GpuProgram", "Resources", "TensorMap"]
