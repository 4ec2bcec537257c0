"""Emitted CUDA source as a C++ translation unit for the host."""

from __future__ import annotations

import re
from dataclasses import dataclass

HEADER = "cuda/kernel.h"

#: What the assembly that our own sources hold means, in C++.
ASSEMBLY = {
    'asm(PTX ".NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));': (
        "result = PTX[1] == 'a' ? max_or_nan(a, b) : min_or_nan(a, b);"
    )
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its type without qualifiers."""

    type: str
    name: str

    @property
    def is_pointer(self) -> bool:
        """An address in global memory."""
        return self.type.endswith("*")


def kernels(source: str) -> dict[str, tuple[Parameter, ...]]:
    """The kernels that the source defines, with their parameters in order."""
    found = {}
    pattern = r"__global__ void\s+(?:__launch_bounds__\([^)]*\)\s*)?(\w+)\(([^;{]*)\)\s*\{"
    for match in re.finditer(pattern, source):
        parameters = [_parameter(text) for text in match[2].split(",") if text.strip()]
        found[match[1]] = tuple(parameters)
    return found


def host_source(source: str) -> str:
    """The source for a C++ compiler, line for line, with an entry ``run_<kernel>`` for each kernel behind it.

    Raises:
        ValueError: it holds inline assembly, which nothing here understands.
    """
    for assembly, meaning in ASSEMBLY.items():
        source = source.replace(assembly, meaning)
    if unknown := re.search(r"^(?![ \t]*//).*\b(?:asm|__asm__)\b.*\(.*$", source, re.MULTILINE):
        raise ValueError(f"inline assembly is not emulated: {unknown[0].strip()}")
    body = re.sub(r"(?m)^[ \t]*#[ \t]*include.*$", "", source)
    # C++ wants an alignment before everything else.
    body = re.sub(r"__shared__ (alignas\(\d+\))", r"\1 __shared__", body)
    # Dynamic shared memory, whatever its name and type, is the runtime's array.
    body = re.sub(
        r"extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];",
        r"\1* const \2 = (\1*)emulator::dynamic_shared();",
        body,
    )
    entries = [_entry(name, parameters) for name, parameters in kernels(source).items()]
    return "\n".join([f'#include "{HEADER}"', '#line 1 "kernel.cu"', body, *entries, ""])


def _parameter(text: str) -> Parameter:
    plain = re.sub(r"__grid_constant__|__restrict__|\bconst\b", " ", text).strip()
    name = re.findall(r"\w+", plain)[-1]
    return Parameter(" ".join(plain.removesuffix(name).split()), name)


def _entry(name: str, parameters: tuple[Parameter, ...]) -> str:
    values = ", ".join(f"({p.type})a[{i}]" if p.is_pointer else f"*({p.type}*)a[{i}]" for i, p in enumerate(parameters))
    call = f'static __attribute__((no_sanitize("thread"))) void call_{name}(void **a) {{ {name}({values}); }}'
    run = f"return run_kernel(call_{name}, a, grid, block, bytes);"
    signature = f"int run_{name}(void **a, const int *grid, const int *block, size_t bytes)"
    return f"{call}\nEMULATOR_EXPORT {signature} {{ {run} }}"
