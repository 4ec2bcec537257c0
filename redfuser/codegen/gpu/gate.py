"""Which kernels a target can run: checked before a schedule may be chosen."""

from __future__ import annotations

import re
from collections.abc import Iterator

from redfuser.codegen.gpu.emission.script import Script
from redfuser.codegen.gpu.value import GpuKernel, Resources
from redfuser.codegen.refusal import Refused
from redfuser.expr import Expr, Tensor, walk
from redfuser.reason import Reason
from redfuser.targets import GpuTarget
from redfuser.tile.ir import TileProgram
from redfuser.tile.walk import operands, statements

#: Registers are handed out to warps in units of this many; a block has at most this many threads.
REGISTER_UNIT, MOST_THREADS = 256, 1024
#: A thread addresses no more registers.
MOST_REGISTERS = 255


def read_resources(log: str, dynamic_shared: int, threads: int) -> Resources:
    """What ``ptxas -v`` tells of a kernel, with what its launch takes.

    Raises:
        Refused: it doesn't tell.
    """
    registers = re.search(r"Used (\d+) registers", log)
    spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    if registers is None or spills is None:
        raise Refused("resources", "the assembler didn't report what a kernel uses", " ".join(log.split())[:300])
    shared = re.search(r"(\d+) bytes smem", log)
    static = int(shared[1]) if shared else 0
    return Resources(int(registers[1]), int(spills[1]), int(spills[2]), static, dynamic_shared, threads)


def foreseen_problem(script: Script, target: GpuTarget) -> Reason | None:
    """Why a script can't fit the target, before it is compiled; None if it may."""
    limits = (
        ("shared memory", script.shared_bytes, target.shared_block_kb * 1024),
        ("registers a thread", script.registers, MOST_REGISTERS),
    )
    for what, used, limit in limits:
        if used > limit:
            text = f"a block of {script.name} would take more {what} than the target has"
            return Reason("resources", text, f"{used} of {limit}")
    return None


def resource_problem(kernel: GpuKernel, target: GpuTarget) -> Reason | None:
    """Why the kernel can't be launched on the target; None if it can."""
    used = kernel.resources
    shared = used.static_shared + used.dynamic_shared
    if shared > target.shared_block_kb * 1024:
        return _problem(kernel, "shared memory", f"{shared} B", f"{target.shared_block_kb * 1024} B")
    if used.threads > MOST_THREADS:
        return _problem(kernel, "threads", str(used.threads), str(MOST_THREADS))
    if block_registers(used) > target.registers:
        return _problem(kernel, "registers", str(block_registers(used)), str(target.registers))
    return None


def block_registers(used: Resources) -> int:
    """Registers that a block takes."""
    warps = -(-used.threads // 32)
    return warps * -(-used.registers * 32 // REGISTER_UNIT) * REGISTER_UNIT


def type_problem(program: TileProgram, target: GpuTarget) -> Reason | None:
    """Why the target can't compute with the types of the program's tensors and values; None if it can."""
    if target.has("fp8"):
        return None
    tensors = [*program.inputs, *program.outputs, *program.workspaces]
    tensors += [buffer.tensor for phase in program.phases for buffer in phase.buffers]
    typed: list[Tensor | Expr] = [*tensors, *_values(program)]
    for value in typed:
        if value.dtype.startswith("float8"):
            return Reason("no-float8", f"{target.name} ({target.arch}) has no float8 arithmetic", str(value))
    return None


def _values(program: TileProgram) -> Iterator[Expr]:
    """Every value that a program computes, and the values inside it."""
    for phase in program.phases:
        for statement in statements(phase.body):
            for value in operands(statement):
                yield from walk(value)


def _problem(kernel: GpuKernel, what: str, used: str, limit: str) -> Reason:
    return Reason("resources", f"a block of {kernel.name} takes more {what} than the target has", f"{used} of {limit}")
