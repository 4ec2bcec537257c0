"""The code of a block, by whichever instructions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from redfuser.codegen.cpu.bytes.amx import Tiles
from redfuser.codegen.cpu.bytes.block import Block
from redfuser.codegen.cpu.bytes.pairs import Pairs
from redfuser.codegen.cpu.bytes.vnni import Vectors
from redfuser.codegen.cpu.values.builder import Builder

if TYPE_CHECKING:
    from tvm.tirx import PrimExpr

#: Linux' number of arch_prctl, its request for a dynamic processor state, and that of AMX tiles.
ARCH_PRCTL, REQUEST_STATE, TILE_DATA = 158, 0x1023, 18


def request_tiles(builder: Builder) -> PrimExpr:
    """Ask the kernel for AMX tiles; whether they were granted.

    They must be asked for before the first use in a process; asking again costs a system call and changes nothing.
    """
    from tvm.tirx import call_extern, const

    arguments = [const(n, "int64") for n in (ARCH_PRCTL, REQUEST_STATE, TILE_DATA)]
    refused = builder.bind("refused", call_extern("int64", "syscall", *arguments))
    return refused.equal(const(0, "int64"))


def write_block(builder: Builder, block: Block, granted: PrimExpr | None, has_vnni: bool) -> None:
    """Write the code of one block.

    Args:
        granted: what :func:`request_tiles` gave; None for a processor without AMX.
        has_vnni: whether the processor has VNNI; else it has AVX2.
    """
    from tvm.tirx import Not

    if granted is None:
        (Vectors if has_vnni else Pairs)(builder, block).write()
        return
    with builder.when(granted):
        Tiles(builder, block).write()
    with builder.when(Not(granted)):
        Vectors(builder, block).write()
