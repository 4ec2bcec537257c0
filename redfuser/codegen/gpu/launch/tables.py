"""Kernels and launches as C tables: what the launcher's runtime (``runtime.c`` and its fellows) reads. No TVM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from redfuser.codegen.gpu.value import Argument, GpuKernel, GpuProgram, TensorMap
from redfuser.expr import Tensor

#: What a module's host code calls a kernel by. A prefix of ours, so that a symbol left over is noticed.
PACKED_PREFIX = "rf_k_"

#: What the runtime has room for: see ``runtime.c``.
MAX_ARGUMENTS, MAX_MAPS, MAX_RANK = 256, 16, 8

#: DLPack's code of a type, and its bits.
TypeCode = Callable[[str], tuple[int, int]]


@dataclass(frozen=True)
class PackedKernel:
    """A kernel that host code launches itself.

    Args:
        name: symbol in the machine code.
        kinds: a letter a parameter: ``p`` address, ``i`` integer, ``f`` float32, ``d`` float64.
        extents: a letter each, in the order they follow the parameters: ``xyz`` grid, ``XYZ`` block, ``s`` bytes of
            dynamic shared memory.
    """

    name: str
    kinds: str
    extents: str

    def __post_init__(self) -> None:
        if not re.fullmatch("[pifd]*", self.kinds) or len(self.kinds) > MAX_ARGUMENTS:
            raise ValueError(f"{self.name}: parameters {self.kinds!r} can't be passed")
        if not re.fullmatch("[xyzXYZs]*", self.extents):
            raise ValueError(f"{self.name}: launch extents {self.extents!r} are unknown")

    @property
    def symbol(self) -> str:
        """What host code calls."""
        return PACKED_PREFIX + self.name

    def __str__(self) -> str:
        return f"kernel {self.name}({self.kinds}) launched by {self.extents}"


def program_symbol(name: str) -> str:
    """The packed function of a fused program, apart from every name that TVM makes up."""
    return f"rf_{name}"


def packed_tables(kernels: Sequence[PackedKernel], arch: str) -> str:
    """C text: one image ``0`` with these kernels, and an entry for each."""
    rows = [_kernel(0, kernel.name) for kernel in kernels]
    entries = [
        f'RF_PACKED({kernel.symbol}, {number}, "{kernel.kinds}", "{kernel.extents}")'
        for number, kernel in enumerate(kernels)
    ]
    return "\n".join([_images([arch]), *_array("rf_kernel", "rf_kernels", rows), '#include "packed.c"', *entries, ""])


def program_tables(programs: Sequence[GpuProgram], type_code: TypeCode) -> str:
    """C text: an image for each kernel, in order, and an entry for each program.

    Raises:
        ValueError: a program exceeds what the runtime has room for.
    """
    kernels = [kernel for program in programs for kernel in program.kernels]
    lines = [_images([kernel.arch for kernel in kernels])]
    lines += _array("rf_kernel", "rf_kernels", [_kernel(n, kernel.entry) for n, kernel in enumerate(kernels)])
    first = 0
    for number, program in enumerate(programs):
        lines += _program(number, program, first, type_code)
        first += len(program.kernels)
    rows = [
        f'{{"{program.name}", {len(_tensors(program))}, rf_tensors_{n}, {len(program.kernels)}, rf_steps_{n}}}'
        for n, program in enumerate(programs)
    ]
    lines += [*_array("static const rf_program", "rf_programs", rows, own=True), '#include "programs.c"']
    lines += [f"RF_PROGRAM(__tvm_ffi_{program_symbol(p.name)}, {n})" for n, p in enumerate(programs)]
    return "\n".join([*lines, ""])


def _images(archs: Sequence[str]) -> str:
    declared = [
        f'extern const unsigned char rf_code_{n}[] __attribute__((visibility("hidden")));' for n in range(len(archs))
    ]
    rows = [f"{{rf_code_{n}, {_arch(arch)}, NULL, PTHREAD_MUTEX_INITIALIZER}}" for n, arch in enumerate(archs)]
    return "\n".join(['#include "runtime.c"', *declared, *_array("rf_image", "rf_images", rows)])


def _arch(arch: str) -> str:
    """``sm_90a`` as the runtime compares it: 9, 0, and whether no other minor version will do."""
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    if match is None:
        raise ValueError(f"{arch!r} is not an architecture such as sm_90a")
    return f'"{arch}", {match[1]}, {match[2]}, {int(match[3] == "a")}'


def _kernel(image: int, entry: str) -> str:
    return f'{{&rf_images[{image}], "{entry}", NULL}}'


def _program(number: int, program: GpuProgram, first: int, type_code: TypeCode) -> list[str]:
    tensors = _tensors(program)
    places = {tensor.name: place for place, tensor in enumerate(tensors)}
    rows = [_tensor(tensor, type_code) for tensor in tensors]
    lines = _array("static const rf_tensor", f"rf_tensors_{number}", rows, own=True)
    steps = []
    for k, kernel in enumerate(program.kernels):
        prefix = f"{number}_{k}"
        lines += _arguments(prefix, kernel, places)
        extents = ", ".join(_extents(values) for values in (kernel.grid, kernel.block, kernel.cluster))
        launch = f"&rf_kernels[{first + k}], {extents}, {kernel.dynamic_shared}"
        steps.append(f"{{{launch}, {len(kernel.arguments)}, rf_arguments_{prefix}}}")
    return [*lines, *_array("static const rf_step", f"rf_steps_{number}", steps, own=True)]


def _tensors(program: GpuProgram) -> tuple[Tensor, ...]:
    return (*program.inputs, *program.outputs, *program.workspaces)


def _tensor(tensor: Tensor, type_code: TypeCode) -> str:
    if len(tensor.shape) > MAX_RANK:
        raise ValueError(f"{tensor.name} has more than {MAX_RANK} dimensions")
    code, bits = type_code(tensor.dtype)
    return f'{{"{tensor.name}", {code}, {bits}, {len(tensor.shape)}, {_extents(tensor.shape or (0,))}}}'


def _arguments(prefix: str, kernel: GpuKernel, places: Mapping[str, int]) -> list[str]:
    maps = [argument for argument in kernel.arguments if argument.tensor_map is not None]
    if len(kernel.arguments) > MAX_ARGUMENTS or len(maps) > MAX_MAPS:
        raise ValueError(f"{kernel.name} takes more arguments than can be passed")
    described = [_map(argument.tensor_map) for argument in maps if argument.tensor_map is not None]
    lines = _array("static const rf_map", f"rf_maps_{prefix}", described, own=True) if maps else []
    rows = [_argument(prefix, argument, places, maps) for argument in kernel.arguments]
    return [*lines, *_array("static const rf_argument", f"rf_arguments_{prefix}", rows, own=True)]


def _argument(prefix: str, argument: Argument, places: Mapping[str, int], maps: list[Argument]) -> str:
    described = "NULL" if argument.tensor_map is None else f"&rf_maps_{prefix}[{maps.index(argument)}]"
    return f"{{{places[argument.tensor]}, {described}}}"


def _map(described: TensorMap) -> str:
    lists = (described.shape, described.strides or (0,), described.box, described.element_strides)
    codes = (described.interleave, described.swizzle, described.l2_promotion, described.fill)
    fields = [f"{described.data_type}, {len(described.shape)}", *map(_extents, lists), *map(str, codes)]
    return f"{{{', '.join(fields)}}}"


def _extents(values: Iterable[int]) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def _array(kind: str, name: str, rows: Sequence[str], own: bool = False) -> list[str]:
    """An array with a row a line; ``own`` when ``kind`` brings its own storage class."""
    return [f"{kind if own else f'static {kind}'} {name}[] = {{", *(f"  {row}," for row in rows), "};"]
