"""Running emitted CUDA on the CPU: one fiber for each thread, with everything asynchronous made as late, as early or as
disordered as the PTX memory model allows.

    emulator.run(source, launches, {"Q": q, "O": o}, schedule)

What a device would get away with on a lucky day is an :class:`EmulationError` here: shared memory and accumulators read
as NaN until they are waited for, and every wait, barrier, fence and address is checked.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from redfuser.codegen.gpu.value import Argument, GpuProgram, TensorMap
from redfuser.expr.evaluate import numpy_dtype
from tests.emulator.launch import Launch, launches_of
from tests.emulator.library import EmulationError, kernel_library, line_of, runtime
from tests.emulator.schedules import SCHEDULES, Schedule
from tests.emulator.source import Parameter, kernels

__all__ = ["SCHEDULES", "Argument", "EmulationError", "Launch", "Schedule", "run", "run_program"]

Array = np.ndarray[Any, Any]
ALIGNMENT = 256  # of what cudaMalloc returns


def run(
    source: str, launches: Sequence[Launch], arrays: Mapping[str, Array], schedule: Schedule = SCHEDULES[0]
) -> None:
    """Compile the source for the host and run its kernels in order; arrays that can be written are, in place.

    Args:
        source: as TileLang emits it for sm_80 to sm_90a.
        launches: what to run, and with what.
        arrays: by the names that arguments use; of any dtype whose bytes are the device's.
        schedule: order of threads, blocks and arrivals.

    Raises:
        EmulationError: a wrong wait, race, access or launch, with the place; or something that isn't emulated.
    """
    _run_all([(source, launch) for launch in launches], arrays, schedule)


def run_program(
    program: GpuProgram,
    arrays: Mapping[str, Array],
    schedule: Schedule = SCHEDULES[0],
    blocks: Sequence[tuple[int, ...]] | None = None,
) -> None:
    """Run a compiled tile program, as :func:`run` does.

    Args:
        program: its kernels are launched one after another.
        arrays: its inputs and outputs; workspaces that aren't given are made, full of NaN or -1.
        schedule: order of threads, blocks and arrivals.
        blocks: of each kernel's grid, which to run; all if not given.

    Raises:
        EmulationError: as :func:`run`.
    """
    workspaces = {tensor.name: poisoned(tensor.shape, tensor.dtype) for tensor in program.workspaces}
    _run_all(list(launches_of(program, blocks)), {**workspaces, **arrays}, schedule)


def poisoned(shape: Sequence[int], dtype: str) -> Array:
    """An array as uninitialised device memory is at its worst: every byte 0xff, which is a NaN or -1."""
    kind = numpy_dtype(dtype)
    return np.frombuffer(b"\xff" * (kind.itemsize * int(np.prod(shape))), kind).reshape(shape).copy()


def _run_all(launches: Sequence[tuple[str, Launch]], arrays: Mapping[str, Array], schedule: Schedule) -> None:
    runtime().emulator_options(*schedule.codes)
    with _device_copies(arrays) as addresses:
        for source, launch in launches:
            parameters = kernels(source)
            if launch.kernel not in parameters:
                raise EmulationError(f"the source has no kernel {launch.kernel!r}")
            failed = _run(kernel_library(source), launch, parameters[launch.kernel], addresses)
            if failed:
                raise EmulationError(f"{launch.kernel}: {_message()}{_place(source)}")


def _run(library: ctypes.CDLL, launch: Launch, parameters: Sequence[Parameter], addresses: Mapping[str, int]) -> bool:
    if len(parameters) != len(launch.arguments):
        raise EmulationError(f"{launch.kernel} takes {len(parameters)} arguments, not {len(launch.arguments)}")
    held = [_argument(*pair, addresses) for pair in zip(parameters, launch.arguments, strict=True)]
    values = (ctypes.c_void_p * len(held))(*[value for value, _ in held])
    grid, block = (ctypes.c_int * 3)(*launch.grid), (ctypes.c_int * 3)(*launch.block)
    runtime().emulator_blocks((ctypes.c_uint * len(launch.blocks))(*launch.blocks), len(launch.blocks))
    entry = getattr(library, f"run_{launch.kernel}")
    return bool(entry(values, grid, block, ctypes.c_size_t(launch.dynamic_shared_bytes)))


def _message() -> str:
    return str(runtime().emulator_error().decode(errors="replace"))


def _place(source: str) -> str:
    """The line of the source that the last error happened in, as text to append."""
    line = line_of(kernel_library(source), runtime().emulator_error_offset())
    return f"\n  line {line}: {source.splitlines()[line - 1].strip()}" if line else ""


def _argument(parameter: Parameter, argument: Argument, addresses: Mapping[str, int]) -> tuple[int, Any]:
    """What an entry takes: an address, or the address of a tensor map; and the latter's memory, to keep it alive."""
    described, is_size = argument.tensor_map, argument.role == "size"
    fits = parameter.type == ("CUtensorMap" if described else "int") if described or is_size else parameter.is_pointer
    if not fits:
        raise EmulationError(f"{parameter.name} is a {parameter.type}: not what argument {argument.tensor!r} gives")
    address = addresses[argument.tensor]
    return _encode(parameter.name, described, address) if described else (address, None)


def _encode(name: str, described: TensorMap, base: int) -> tuple[int, Any]:
    store = ctypes.create_string_buffer(runtime().emulator_tensor_map_bytes() + 64)
    address = (ctypes.addressof(store) + 63) & ~63
    rank = len(described.shape)
    lists = (*described.shape, *described.strides, *described.box, *described.element_strides)
    values = (*lists, described.interleave, described.swizzle, described.l2_promotion, described.fill)
    memory = (ctypes.c_int64 * len(values))(*values)
    arguments = (ctypes.c_void_p(address), described.data_type, rank, ctypes.c_void_p(base), memory)
    if runtime().emulator_tensor_map(*arguments):
        raise EmulationError(f"{name}: {_message()}")
    return address, store


@contextmanager
def _device_copies(arrays: Mapping[str, Array]) -> Iterator[dict[str, int]]:
    """Copies at addresses aligned as a device's, known to the runtime by name; written back at the end."""
    copies = {}
    runtime().emulator_forget_arrays()
    for name, array in arrays.items():
        store = np.empty(array.nbytes + ALIGNMENT, np.uint8)
        start = -store.ctypes.data % ALIGNMENT
        copies[name] = copy = store[start : start + array.nbytes]
        copy[:] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        runtime().emulator_add_array(name.encode(), ctypes.c_void_p(copy.ctypes.data), ctypes.c_size_t(copy.nbytes))
    try:
        yield {name: copy.ctypes.data for name, copy in copies.items()}
    finally:
        runtime().emulator_forget_arrays()
        for name, array in arrays.items():
            if array.flags.writeable:
                array[...] = copies[name].view(array.dtype).reshape(array.shape)
