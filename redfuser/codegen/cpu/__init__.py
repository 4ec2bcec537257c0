"""CPU code generation: tile programs to TIR that LLVM turns into vector code."""

from redfuser.codegen.cpu.assembly_text import read_assembly
from redfuser.codegen.cpu.build import CompiledKernel, compile_kernel, resources
from redfuser.codegen.cpu.check import check_compiled, check_kernel
from redfuser.codegen.cpu.generate import generate

__all__ = [
    "CompiledKernel",
    "check_compiled",
    "check_kernel",
    "compile_kernel",
    "generate",
    "read_assembly",
    "resources",
]
