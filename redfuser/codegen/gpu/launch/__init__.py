"""Machine code of kernels and the C code that launches them, as one object to link into a module."""

from redfuser.codegen.gpu.launch.build import HostCompilerError, build_packed, build_programs, static_object
from redfuser.codegen.gpu.launch.tables import PackedKernel, program_symbol

__all__ = ["HostCompilerError", "PackedKernel", "build_packed", "build_programs", "program_symbol", "static_object"]
