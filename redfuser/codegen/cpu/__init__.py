"""CPU code generation: tile programs to TIR that LLVM turns into vector code."""

from redfuser.codegen.cpu.build import CompiledKernel, compile_kernel, resources
from redfuser.codegen.cpu.check import check_kernel
from redfuser.codegen.cpu.generate import generate

__all__ = ["CompiledKernel", "check_kernel", "compile_kernel", "generate", "resources"]
