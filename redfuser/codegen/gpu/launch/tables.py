"""Kernels and launches as C tables: what the launcher's runtime (``runtime.c`` and its fellows) reads. No TVM."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from redfuser.codegen.gpu.value import Argument, Count, GpuKernel, GpuProgram, TensorMap
from redfuser.expr import Tensor
from redfuser.extents import Dim, is_symbolic

#: What a module's host code calls a kernel by. A prefix of ours, so that a symbol left over is noticed.
PACKED_PREFIX = "rf_k_"

#: What the runtime has room for: see ``runtime.c``.
MAX_ARGUMENTS, MAX_MAPS, MAX_RANK, MAX_DIMS, MAX_COUNTS = 256, 16, 8, 64, 256

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
    rows = []
    for number, program in enumerate(programs):
        counts = Counts(program.dims)
        lines += _program(number, program, first, type_code, counts)
        lines += counts.function(f"rf_work_out_{number}")
        steps = f"{len(program.kernels)}, rf_steps_{number}"
        dims = f"{len(program.inputs)}, {len(program.dims)}, {f'rf_work_out_{number}' if program.dims else 'NULL'}"
        rows.append(f'{{"{program.name}", {len(_tensors(program))}, rf_tensors_{number}, {steps}, {dims}}}')
        first += len(program.kernels)
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


@dataclass
class Counts:
    """What follows from the open dimensions of a program, each once, in the order it was asked for.

    Args:
        dims: in the order in which they are passed.
    """

    dims: Sequence[Dim]
    formulas: list[str] = field(default_factory=list)

    def __call__(self, count: Count) -> int:
        """What stands for a count in the tables: itself, or ``-1 - place`` among those worked out on a call.

        Raises:
            ValueError: the runtime has no room for more.
        """
        if isinstance(count, int):
            return count
        places = {dim.name: f"d[{place}]" for place, dim in enumerate(self.dims)}
        formula = re.sub(r"[A-Za-z_]\w*", lambda name: places[name[0]], count)
        if formula not in self.formulas:
            self.formulas.append(formula)
        if len(self.formulas) > MAX_COUNTS or len(self.dims) > MAX_DIMS:
            raise ValueError("more follows from open dimensions than can be worked out")
        return -1 - self.formulas.index(formula)

    def function(self, name: str) -> list[str]:
        """C that works them out; none without dimensions."""
        if not self.dims:
            return []
        lines = [f"  v[{place}] = {formula};" for place, formula in enumerate(self.formulas)]
        return [f"static void {name}(const int64_t* d, int64_t* v) {{", *lines, "}"]


def _program(number: int, program: GpuProgram, first: int, type_code: TypeCode, counts: Counts) -> list[str]:
    tensors = _tensors(program)
    places = {tensor.name: place for place, tensor in enumerate(tensors)}
    places |= {dim.name: counts(dim.name) for dim in program.dims}
    rows = [_tensor(tensor, type_code, counts) for tensor in tensors]
    lines = _array("static const rf_tensor", f"rf_tensors_{number}", rows, own=True)
    steps = []
    for k, kernel in enumerate(program.kernels):
        prefix = f"{number}_{k}"
        lines += _arguments(prefix, kernel, places, counts)
        grid = tuple(map(counts, kernel.grid))
        extents = ", ".join(_extents(values) for values in (grid, kernel.block, kernel.cluster))
        launch = f"&rf_kernels[{first + k}], {extents}, {kernel.dynamic_shared}"
        steps.append(f"{{{launch}, {len(kernel.arguments)}, rf_arguments_{prefix}}}")
    return [*lines, *_array("static const rf_step", f"rf_steps_{number}", steps, own=True)]


def _tensors(program: GpuProgram) -> tuple[Tensor, ...]:
    return (*program.inputs, *program.outputs, *program.workspaces)


def _tensor(tensor: Tensor, type_code: TypeCode, counts: Counts) -> str:
    if len(tensor.shape) > MAX_RANK:
        raise ValueError(f"{tensor.name} has more than {MAX_RANK} dimensions")
    code, bits = type_code(tensor.dtype)
    shape = [counts(str(extent) if is_symbolic(extent) else extent) for extent in tensor.shape]
    return f'{{"{tensor.name}", {code}, {bits}, {len(shape)}, {_extents(shape or (0,))}}}'


def _arguments(prefix: str, kernel: GpuKernel, places: Mapping[str, int], counts: Counts) -> list[str]:
    maps = [argument for argument in kernel.arguments if argument.tensor_map is not None]
    if len(kernel.arguments) > MAX_ARGUMENTS or len(maps) > MAX_MAPS:
        raise ValueError(f"{kernel.name} takes more arguments than can be passed")
    described = [_map(argument.tensor_map, counts) for argument in maps if argument.tensor_map is not None]
    lines = _array("static const rf_map", f"rf_maps_{prefix}", described, own=True) if maps else []
    rows = [_argument(prefix, argument, places, maps) for argument in kernel.arguments]
    return [*lines, *_array("static const rf_argument", f"rf_arguments_{prefix}", rows, own=True)]


def _argument(prefix: str, argument: Argument, places: Mapping[str, int], maps: list[Argument]) -> str:
    described = "NULL" if argument.tensor_map is None else f"&rf_maps_{prefix}[{maps.index(argument)}]"
    return f"{{{places[argument.tensor]}, {described}}}"


def _map(described: TensorMap, counts: Counts) -> str:
    shape, strides = (tuple(map(counts, listed)) for listed in (described.shape, described.strides))
    lists = (shape, strides or (0,), described.box, described.element_strides)
    codes = (described.interleave, described.swizzle, described.l2_promotion, described.fill)
    fields = [f"{described.data_type}, {len(described.shape)}", *map(_extents, lists), *map(str, codes)]
    return f"{{{', '.join(fields)}}}"


def _extents(values: Iterable[int]) -> str:
    return f"{{{', '.join(map(str, values))}}}"


def _array(kind: str, name: str, rows: Sequence[str], own: bool = False) -> list[str]:
    """An array with a row a line; ``own`` when ``kind`` brings its own storage class."""
    return [f"{kind if own else f'static {kind}'} {name}[] = {{", *(f"  {row}," for row in rows), "};"]
